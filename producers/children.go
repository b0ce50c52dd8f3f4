package producers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/query"
)

// Children annotate rows with processes, one for each slot of the concurrency. A
// process gets one line of JSON on its standard input for each row,
//
//	{"id":"…","batch":"…","data":{…}}
//
// and answers with one line on its standard output, in the same order:
// {"data":{…},"metadata":{…}} or {"error":"…"}. An answer may bear the id of its
// row, and is refused if that is another one's. A process that ends, or answers
// with anything else, fails the row; what it would say next could be the answer
// to any row, so it is killed and another one started.
//
// A process gets a row when it has answered for the last one. One that is quick,
// and whose answers bear ids, gets several at once.
type Children struct {
	argv   []string
	stderr io.Writer
	slots  int

	mu     sync.Mutex
	silent int // processes in a row that ended without an answer
	spoken bool
}

// NewChildren makes workers of a command, for so many slots. What its processes
// write to standard error goes to stderr.
func NewChildren(argv []string, slots int, stderr io.Writer) (*Children, error) {
	if len(argv) == 0 {
		return nil, fmt.Errorf("%w: there is no command to annotate with", ErrOption)
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOption, err)
	}
	return &Children{argv: argv, stderr: stderr, slots: slots}, nil
}

// Worker gives the worker of a slot. Its process starts with its first row.
func (c *Children) Worker(int) (Worker, error) { return &childWorker{of: c}, nil }

// judge gives up on a command whose processes all end before they have ever
// answered.
func (c *Children) judge(err error, answered bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answered {
		c.spoken = true
	}
	var call *CallError
	if c.spoken || !errors.As(err, &call) || call.Kind != KindDied {
		return err
	}
	if c.silent++; c.silent < 3+c.slots {
		return err
	}
	return &FatalError{fmt.Errorf("%d processes of %q ended before one has answered: %w", c.silent, c.argv[0], err)}
}

// childWorker is a Worker with a process.
type childWorker struct {
	of    *Children
	child *child // nil: yet to be started
	lines []byte // what it is asked
	ahead int    // see Ahead
}

// childGrace is how long a process may take to end once its input has.
const childGrace = 5 * time.Second

// Close ends the process: its input is at its end, and it is killed when it does
// not end by itself.
func (w *childWorker) Close() error {
	if w.child != nil {
		w.child.wait()
		w.child = nil
	}
	return nil
}

// Annotate asks the process about a row.
func (w *childWorker) Annotate(ctx context.Context, row query.Row) (data, metadata []byte, err error) {
	began := time.Now()
	w.lines = dataset.AppendQuestion(w.lines[:0], row.Batch, row.Row)
	answers, err := w.ask(ctx, 1)
	var a answerLine
	if err == nil {
		a, err = answerOf(answers[0], row)
	}
	answered := err == nil
	if answered {
		err = a.failure
	}
	w.pace(answered, a.named, time.Since(began), 1)
	return a.data, a.metadata, w.of.judge(err, answered)
}

// A process that answers within quick, and says for which row, gets up to
// mostAhead rows at once: otherwise most of the time goes into waking each other.
// One that takes longer may be somebody who is paid for each row; it never gets a
// row before it has answered for the last, so that none is asked for twice when it
// fails. And without ids a line too many would make answers those of other rows.
const (
	quick     = time.Millisecond
	mostAhead = 32
)

// Ahead is how many rows AnnotateAll should get.
func (w *childWorker) Ahead() int { return max(1, w.ahead) }

// pace learns from what came of some rows. A process that went wrong is ended.
func (w *childWorker) pace(well, named bool, took time.Duration, rows int) {
	switch {
	case !well:
		w.ahead = 1
		if w.child != nil {
			w.child.kill()
			w.child = nil
		}
	case !named, took > quick*time.Duration(rows):
		w.ahead = 1
	default:
		w.ahead = min(2*w.Ahead(), mostAhead)
	}
}

// AnnotateAll asks the process about several rows at once. It stops at the first
// row that is not answered by its id, and gives the answers before it.
func (w *childWorker) AnnotateAll(ctx context.Context, rows []query.Row, each func(row query.Row, data, metadata []byte, err error)) (done int) {
	began := time.Now()
	w.lines = w.lines[:0]
	asked := 0
	for _, row := range rows {
		if w.lines = dataset.AppendQuestion(w.lines, row.Batch, row.Row); len(w.lines) > pipeRoom {
			break
		}
		asked++
	}
	if asked < 2 {
		return 0
	}
	w.lines = w.lines[:nthLine(w.lines, asked)]
	answers, _ := w.ask(ctx, asked)
	for i, line := range answers {
		a, err := answerOf(line, rows[i])
		if err != nil || !a.named {
			break
		}
		each(rows[i], a.data, a.metadata, a.failure)
		done++
	}
	w.pace(done == asked, true, time.Since(began), asked)
	return done
}

// nthLine is the length of the first n lines.
func nthLine(lines []byte, n int) (end int) {
	for range n {
		end += bytes.IndexByte(lines[end:], '\n') + 1
	}
	return end
}

// ask puts questions to the process, or to a new one where the last is no longer
// to be trusted.
func (w *childWorker) ask(ctx context.Context, n int) (answers [][]byte, err error) {
	if w.child != nil {
		if answers, err = w.child.ask(ctx, w.lines, n); err != errUnasked && err != errGone {
			return answers, err
		}
		w.child.kill()
	}
	if w.child, err = startChild(w.of.argv, w.of.stderr); err != nil {
		w.child = nil
		return nil, &FatalError{err}
	}
	return w.child.ask(ctx, w.lines, n)
}

// answerLine is what a process says of a row.
type answerLine struct {
	data, metadata []byte
	failure        error // that it answers with
	named          bool  // it bears the row's id
}

// answerOf reads an answer.
func answerOf(line []byte, row query.Row) (a answerLine, err error) {
	parsed, err := dataset.ParseRow(line)
	if err != nil {
		return a, callErrorf(KindGarbage, "the answer is no JSON object on one line: %s", reasonText(string(line[:min(len(line), 80)])))
	}
	for name, value := range parsed.Fields() {
		switch name {
		case dataset.DataMember:
			a.data = value
		case dataset.MetadataMember:
			a.metadata = value
		case "error":
			if string(value) != "null" {
				a.failure = &CallError{KindError, textOf(value)}
			}
		}
	}
	a.named = parsed.ID == row.ID
	switch {
	case parsed.ID != "" && !a.named:
		return a, callErrorf(KindGarbage, "the answer bears the id of another row")
	case a.failure == nil && a.data == nil:
		return a, callErrorf(KindGarbage, `the answer has neither "data" nor "error"`)
	}
	return a, nil
}

// textOf is what a JSON string says, and the JSON of anything else.
func textOf(value []byte) string {
	var text string
	if json.Unmarshal(value, &text) != nil {
		return string(value)
	}
	return text
}
