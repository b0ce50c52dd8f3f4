package dataset_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/siltstone-data/siltstone/dataset"
)

func TestTokensCarryEveryName(t *testing.T) {
	legal := regexp.MustCompile(`^[A-Za-z0-9_=-]+$`)
	seen := map[string]string{}
	for _, n := range append([]string{"", "\x00", "\xff", "a.b.c", "*", ">", "A", "a", "=41", "=", "=="}, oddNames...) {
		tok := dataset.Token(n)
		if !legal.MatchString(tok) {
			t.Errorf("%q becomes %q, which is no token", n, tok)
		}
		if other, ok := seen[tok]; ok && other != n {
			t.Errorf("%q and %q become %q", n, other, tok)
		}
		seen[tok] = n
		if len(tok) > dataset.MaxTokenBytes {
			t.Errorf("%q becomes %d bytes", n, len(tok))
		}
		if got, err := dataset.ParseToken(tok); err != nil || got != n {
			t.Errorf("%q reads back as %q, %v", n, got, err)
		}
	}
	if got := dataset.Token("日 a.b_C-1"); got != "=E6=97=A5=20a=2Eb_C-1" {
		t.Errorf("got %s", got)
	}
}

func TestATextThatTokenNeverGivesIsRefused(t *testing.T) {
	for _, tok := range []string{
		"", "a.b", "a b", "=4", "=", "a=", "=e6", "=41", "=5F", "==", "=ZZ", "日", ">", "*", "a=2", "=2d", strings.Repeat("a", 1025),
	} {
		got, err := dataset.ParseToken(tok)
		if tok == "=" {
			if err != nil || got != "" {
				t.Errorf("the empty name: %q, %v", got, err)
			}
			continue
		}
		if !errors.Is(err, dataset.ErrToken) {
			t.Errorf("%q is %q, %v", tok, got, err)
		}
	}
}

func TestTheTokensOfABatchReadBack(t *testing.T) {
	for _, b := range oddBatches() {
		if got, err := dataset.ParseTokens(b.Tokens()); err != nil || got != b {
			t.Errorf("%s: %v, %v", b.Tokens(), got, err)
		}
	}
	for _, s := range []string{"", "d", "d.", ".b", "d.b.a.x", "d.b.", "d.=", "d.annotations", "d.b.a=2Ex", "d b.b"} {
		if got, err := dataset.ParseTokens(s); err == nil {
			t.Errorf("%q is %v", s, got)
		}
	}
}
