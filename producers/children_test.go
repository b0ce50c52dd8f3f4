package producers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/producers"
	"github.com/siltstone-data/siltstone/query"
)

// shellLoop answers each row; bad is what it does about each hundredth instead,
// and named is whether answers bear ids.
func shellLoop(bad string, named bool) []string {
	id := ``
	if named {
		id = `\"id\":\"$id\",`
	}
	return []string{"sh", "-c", `
answer() { echo "{` + id + `\"data\":{\"of\":\"$id\"}}"; }
while read -r line; do
	id=${line#*'"id":"'}; id=${id%%'"'*}
	case $id in
	*50) ` + bad + ` ;;
	*) answer ;;
	esac
done`}
}

// annotateBy annotates with processes, and gives the rows that have their own
// annotation.
func annotateBy(t *testing.T, s objstore.Store, argv []string, opts ...producers.AnnotateOption) (producers.AnnotateResult, int, error) {
	t.Helper()
	c, err := producers.NewChildren(argv, 2, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	res, err := producers.AnnotateWith(t.Context(), s, nil, &locks{}, quiet, "d", "A", c.Worker,
		append([]producers.AnnotateOption{producers.WorkDir(t.TempDir()), producers.Concurrency(2)}, opts...)...)
	own := 0
	for row, rerr := range query.Rows(t.Context(), s, query.Options{Dataset: "d", Annotators: []string{"A"}, Live: true, WorkDir: t.TempDir()}) {
		var none *query.NotFoundError
		if errors.As(rerr, &none) && none.What == "annotator" {
			break
		}
		if rerr != nil {
			t.Fatal(rerr)
		}
		var v map[string]any
		if err := json.Unmarshal(row.Raw, &v); err != nil {
			t.Fatal(err)
		}
		of, there := v["A.of"]
		if there && of != row.ID {
			t.Errorf("row %s has the annotation of %v", row.ID, of)
		}
		if there {
			own++
		}
	}
	return res, own, err
}

// TestAProcessThatGoesWrongCostsOneRow, however many it had been given, and no
// row ever gets the answer to another one.
func TestAProcessThatGoesWrongCostsOneRow(t *testing.T) {
	const rows = 600
	for name, c := range map[string]struct {
		bad  string
		kind producers.Kind
	}{
		"an error":                     {`echo '{"error":"no"}'`, producers.KindError},
		"an error with its id":         {`echo "{\"id\":\"$id\",\"error\":\"no\"}"`, producers.KindError},
		"garbage":                      {`echo Traceback`, producers.KindGarbage},
		"no data":                      {`echo '{}'`, producers.KindGarbage},
		"a list":                       {`echo '[1]'`, producers.KindGarbage},
		"death":                        {`exit 3`, producers.KindDied},
		"death in the middle":          {`printf '{"data":'; exit 3`, producers.KindDied},
		"an end without a word":        {`exit 0`, producers.KindDied},
		"two lines at once":            {`printf '{"data":{}}\n{"data":{}}\n'`, producers.KindGarbage},
		"the id of another row":        {`echo '{"id":"r999999","data":{}}'`, producers.KindGarbage},
		"data that cannot be stored":   {`echo "{\"id\":\"$id\",\"data\":{\"_metadata\":1}}"`, producers.KindInvalid},
		"metadata that is none":        {`echo "{\"id\":\"$id\",\"data\":{},\"metadata\":[]}"`, producers.KindInvalid},
		"a member that breaks out":     {`echo "{\"id\":\"$id\",\"data\":{\"x\":1},\"data\":{}}"`, producers.KindGarbage},
		"a name of a row's own column": {`echo "{\"id\":\"$id\",\"data\":[1,2]}"`, producers.KindInvalid},
	} {
		for _, named := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, named %v", name, named), func(t *testing.T) {
				t.Parallel()
				s := mem.New()
				fillBatch(t, s, "b", 0, rows)
				res, own, err := annotateBy(t, s, shellLoop(c.bad, named))
				if err != nil || res.Failed != rows/100 || res.Rows+res.Failed != rows || int64(own) != res.Rows {
					t.Fatalf("%+v, %v, %d of their own", res, err, own)
				}
				for _, r := range res.Reasons {
					if r.Kind != c.kind {
						t.Errorf("%+v, want %s", r, c.kind)
					}
				}
			})
		}
	}
}

// TestALineTooManyNeverShiftsAnswers is the fault that cannot be seen when it
// happens: a line more, later or sooner, that could be the answer to a row.
func TestALineTooManyNeverShiftsAnswers(t *testing.T) {
	for name, bad := range map[string]string{
		"before its answer":           `echo "{\"id\":\"$id\",\"data\":{\"of\":\"$id\"}}"; answer`,
		"after its answer":            `answer; echo "{\"id\":\"$id\",\"data\":{\"of\":\"$id\"}}"`,
		"a debug line":                `answer; echo "done with $id"`,
		"in the background, at times": `answer; (echo "{\"id\":\"$id\",\"data\":{\"of\":\"$id\"}}") &`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mem.New()
			fillBatch(t, s, "b", 0, 600)
			res, own, err := annotateBy(t, s, shellLoop(bad, true))
			if err != nil || res.Rows+res.Failed != 600 || int64(own) != res.Rows || res.Failed > 600/100 {
				t.Fatalf("%+v, %v, %d of their own", res, err, own)
			}
		})
	}
}

// TestASlowProcessGetsOneRowAtATime: what it is paid for is asked for once, also
// when it dies.
func TestASlowProcessGetsOneRowAtATime(t *testing.T) {
	s := mem.New()
	fillBatch(t, s, "b", 0, 70)
	calls := t.TempDir() + "/calls"
	argv := shellLoop(`exit 3`, true)
	argv[2] = strings.Replace(argv[2], "while read -r line; do", "while read -r line; do echo x >> "+calls+"; sleep 0.005", 1)
	res, _, err := annotateBy(t, s, argv, producers.Concurrency(1))
	raw, rerr := os.ReadFile(calls)
	if err != nil || rerr != nil || res.Failed != 1 || strings.Count(string(raw), "\n") != 70 {
		t.Fatalf("%+v, %v, %v, %d calls", res, err, rerr, strings.Count(string(raw), "\n"))
	}
}

// TestAProcessThatHangsIsEndedByTheTimeout, with all that it has started.
func TestAProcessThatHangsIsEndedByTheTimeout(t *testing.T) {
	s := mem.New()
	fillBatch(t, s, "b", 0, 120)
	res, own, err := annotateBy(t, s, shellLoop(`sleep 1000 & wait`, true), producers.Timeout(300*time.Millisecond))
	if err != nil || res.Failed == 0 || res.Rows+res.Failed != 120 || own != int(res.Rows) || res.Reasons[0].Kind != producers.KindTimeout {
		t.Fatalf("%+v, %v, %d", res, err, own)
	}
}

// TestACommandThatNeverAnswersEndsTheWork instead of failing each row.
func TestACommandThatNeverAnswersEndsTheWork(t *testing.T) {
	for _, argv := range [][]string{{"false"}, {"sh", "-c", "exit 7"}, {"sh", "-c", "read -r line; exit 7"}} {
		s := mem.New()
		fillBatch(t, s, "b", 0, 100)
		res, _, err := annotateBy(t, s, argv)
		if err == nil || res.Rows != 0 || res.Calls > 20 || !strings.Contains(err.Error(), argv[0]) {
			t.Errorf("%v: %+v, %v", argv, res, err)
		}
	}
}

// TestAProcessThatSpeaksFirstIsRefused, and one that speaks a lot does not make
// both wait for each other.
func TestAProcessThatSpeaksFirstIsRefused(t *testing.T) {
	s := mem.New()
	w, err := producers.Open(t.Context(), s, nil, quiet, "d", "b")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), map[string]any{"text": strings.Repeat("x", 1<<20)}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	merge(t, s, baseOf("b"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, script := range []string{`head -c 1000000 /dev/zero | tr '\0' 'x'; cat > /dev/null`, `echo hello; cat`, `head -c 300000 /dev/zero | tr '\0' '\n'; cat`} {
		res, _, err := annotateBy(t, s, []string{"sh", "-c", script}, producers.Timeout(2*time.Second))
		if ctx.Err() != nil || err != nil || res.Failed != 1 {
			t.Errorf("%s: %+v, %v", script, res, err)
		}
	}
}
