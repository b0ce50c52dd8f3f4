package producers

import (
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

// Children annotate rows with processes, one for each slot of the concurrency,
// one row at a time each. A process gets one line of JSON on its standard input
// for each row,
//
//	{"id":"…","batch":"…","data":{…}}
//
// and answers with one line on its standard output before it gets another one:
// {"data":{…},"metadata":{…}} or {"error":"…"}. An answer may bear the id of its
// row, and is refused if that is another one's. A process that ends, or answers
// with anything else, fails the row; what it would say next could be the answer
// to any row, so it is killed and another one started.
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
	line  []byte
}

// childGrace is how long a process may take to end once its input has.
const childGrace = 5 * time.Second

// Close ends the process.
func (w *childWorker) Close() error {
	if w.child == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), childGrace)
	defer cancel()
	w.child.end(ctx)
	w.child = nil
	return nil
}

// Annotate asks the process about a row.
func (w *childWorker) Annotate(ctx context.Context, row query.Row) (data, metadata []byte, err error) {
	if w.child != nil && !w.child.ready() {
		w.drop()
	}
	if w.child == nil {
		if w.child, err = startChild(w.of.argv, w.of.stderr); err != nil {
			return nil, nil, &FatalError{err}
		}
	}
	w.line = dataset.AppendQuestion(w.line[:0], row.Batch, row.Row)
	line, err := w.child.ask(ctx, w.line)
	if err == nil {
		data, metadata, err = answerOf(line, row)
	}
	var call *CallError
	answered := err == nil || errors.As(err, &call) && call.Kind == KindError
	if !answered {
		w.drop()
	}
	return data, metadata, w.of.judge(err, answered)
}

func (w *childWorker) drop() {
	w.child.kill()
	w.child = nil
}

// answerOf reads what a process says of a row.
func answerOf(line []byte, row query.Row) (data, metadata []byte, err error) {
	parsed, err := dataset.ParseRow(line)
	if err != nil {
		return nil, nil, callErrorf(KindGarbage, "the answer is no JSON object on one line: %s", reasonText(string(line[:min(len(line), 80)])))
	}
	var failure error
	for name, value := range parsed.Fields() {
		switch name {
		case dataset.DataMember:
			data = value
		case dataset.MetadataMember:
			metadata = value
		case "error":
			if string(value) != "null" {
				failure = &CallError{KindError, textOf(value)}
			}
		}
	}
	switch {
	case parsed.ID != "" && parsed.ID != row.ID:
		return nil, nil, callErrorf(KindGarbage, "the answer bears the id of another row")
	case failure != nil:
		return nil, metadata, failure
	case data == nil:
		return nil, nil, callErrorf(KindGarbage, `the answer has neither "data" nor "error"`)
	}
	return data, metadata, nil
}

// textOf is what a JSON string says, and the JSON of anything else.
func textOf(value []byte) string {
	var text string
	if json.Unmarshal(value, &text) != nil {
		return string(value)
	}
	return text
}
