package catalog_test

import (
	"context"
	"errors"
	"testing"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

func TestOnlyOneOfTwoCommitsOnOneHeadWins(t *testing.T) {
	for _, before := range []string{"", "c0"} {
		s := mem.New()
		if before != "" {
			commit(t, s, before, nil)
		}
		h := head(t, s)
		if _, err := catalog.Commit(t.Context(), s, h, h.Record.Next("c1", "m1", noon)); err != nil {
			t.Fatal(err)
		}
		if _, err := catalog.Commit(t.Context(), s, h, h.Record.Next("c2", "m2", noon)); !errors.Is(err, objstore.ErrLost) {
			t.Fatalf("the second commit gave %v", err)
		}
		if got := head(t, s).Record.Commit; got != "c1" {
			t.Fatalf("the batch says %s", got)
		}
	}
}

func TestEveryCommitKeepsTheRecordThatItReplaces(t *testing.T) {
	s := mem.New()
	commit(t, s, "c1", nil)
	was, _, err := objstore.ReadAll(t.Context(), s, batch.CommitKey())
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, "c2", nil)
	got, _, err := objstore.ReadAll(t.Context(), s, batch.HistoryKey(1))
	if err != nil || string(got) != string(was) {
		t.Fatalf("history holds %q, %v", got, err)
	}
}

// lostAnswer applies conditional puts and reports that nobody knows; then lets
// others act before the committer looks.
type lostAnswer struct {
	objstore.Store
	then func()
	done bool
}

func (l *lostAnswer) Put(ctx context.Context, key string, body []byte, c objstore.Condition) (objstore.Info, error) {
	info, err := l.Store.Put(ctx, key, body, c)
	if err != nil || l.done || key != batch.CommitKey() {
		return info, err
	}
	l.done = true
	if l.then != nil {
		l.then()
	}
	return objstore.Info{}, objstore.ErrUnknown
}

func TestACommitWhoseAnswerWasLostIsRecognisedAsWon(t *testing.T) {
	s := &lostAnswer{Store: mem.New()}
	h := head(t, s)
	got, err := catalog.Commit(t.Context(), s, h, h.Record.Next("c1", "m1", noon))
	if err != nil || got.Record.Commit != "c1" {
		t.Fatalf("%+v, %v", got.Record, err)
	}
	// The head must be good to build on.
	if _, err := catalog.Commit(t.Context(), s, got, got.Record.Next("c2", "m1", noon)); err != nil {
		t.Fatal(err)
	}
}

func TestALostAnswerWithAnotherCommitOnTopIsUnknown(t *testing.T) {
	inner := mem.New()
	s := &lostAnswer{Store: inner, then: func() { commit(t, inner, "c2", nil) }}
	h := head(t, s)
	if _, err := catalog.Commit(t.Context(), s, h, h.Record.Next("c1", "m1", noon)); !errors.Is(err, objstore.ErrLost) {
		t.Fatal(err)
	}
}

func TestACommitOnARecordThatIsGoneIsLost(t *testing.T) {
	s := mem.New()
	h := commit(t, s, "c1", nil)
	if err := s.Delete(t.Context(), batch.CommitKey()); err != nil {
		t.Fatal(err)
	}
	if _, err := catalog.Commit(t.Context(), s, h, h.Record.Next("c2", "m1", noon)); !errors.Is(err, objstore.ErrLost) {
		t.Fatal(err)
	}
}
