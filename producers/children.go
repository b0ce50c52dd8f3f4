package producers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/query"
)

// ErrGiveUp, in the error of an annotator, ends the whole annotation: there is no
// use in asking it of more rows.
var ErrGiveUp = errors.New("the annotator cannot work")

// Children annotate rows with processes, one row at a time each. A process gets
// one line of JSON on its standard input for each row,
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
	idle   chan *child // as many as there may be; nil ones are yet to be started

	mu     sync.Mutex
	silent int // processes in a row that ended without an answer
	spoken bool
}

// NewChildren runs up to n processes at a time. What they write to standard
// error goes to stderr.
func NewChildren(argv []string, n int, stderr io.Writer) (*Children, error) {
	if len(argv) == 0 {
		return nil, fmt.Errorf("%w: there is no command to annotate with", ErrOption)
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOption, err)
	}
	c := &Children{argv: argv, stderr: stderr, idle: make(chan *child, n)}
	for range n {
		c.idle <- nil
	}
	return c, nil
}

// Close ends the processes: their input is at its end, and those that do not
// end by themselves until ctx does are killed.
func (c *Children) Close(ctx context.Context) {
	for range cap(c.idle) {
		if p := <-c.idle; p != nil {
			p.end(ctx)
		}
	}
}

// Annotate asks a process about a row.
func (c *Children) Annotate(ctx context.Context, row query.Row) (dataset.Annotation, error) {
	var p *child
	select {
	case p = <-c.idle:
	case <-ctx.Done():
		return dataset.Annotation{}, context.Cause(ctx)
	}
	back := p
	defer func() { c.idle <- back }()
	if p != nil && !p.ready() {
		p.kill()
		p = nil
	}
	if p == nil {
		var err error
		if p, err = startChild(c.argv, c.stderr); err != nil {
			return dataset.Annotation{}, fmt.Errorf("%w: %w", ErrGiveUp, err)
		}
	}
	ann, err := p.ask(ctx, row)
	var answered *answerError
	if err == nil || errors.As(err, &answered) {
		back = p
	} else {
		p.kill()
		back = nil
	}
	return ann, c.judge(err, back != nil)
}

// judge gives up on a command whose processes all end before they have ever
// answered.
func (c *Children) judge(err error, answered bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answered {
		c.spoken = true
	}
	var died *diedError
	if c.spoken || !errors.As(err, &died) {
		return err
	}
	if c.silent++; c.silent < 3+cap(c.idle) {
		return err
	}
	return fmt.Errorf("%w: %d processes of %q ended before one has answered: %w", ErrGiveUp, c.silent, c.argv[0], err)
}

// answerError is an error that a process has answered with.
type answerError struct{ text string }

func (e *answerError) Error() string { return e.text }

// diedError says that a process ended.
type diedError struct{ how string }

func (e *diedError) Error() string { return "the process ended: " + e.how }

// child is one process.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan said // closed at its end
	bad   error     // why lines ended, other than the end of the process
	gone  chan struct{}
	how   string // it ended; valid once gone is closed
}

// said is a line of a process, and whether it has said more together with it.
type said struct {
	line []byte
	more bool
}

// startChild starts a process in a group of its own, so that an interrupt from
// the terminal is for us to handle, and that what it starts ends with it.
func startChild(argv []string, stderr io.Writer) (*child, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &child{cmd: cmd, in: in, lines: make(chan said, 1), gone: make(chan struct{})}
	go p.listen(out)
	return p, nil
}

// listen reads lines until the process ends.
func (p *child) listen(out io.Reader) {
	in := bufio.NewReaderSize(out, 64<<10)
	for {
		line, err := readLine(in)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				p.bad = err
			}
			break
		}
		p.lines <- said{line, in.Buffered() > 0}
	}
	close(p.lines)
	_, _ = io.Copy(io.Discard, out)
	p.how = "exit status 0"
	if err := p.cmd.Wait(); err != nil {
		p.how = err.Error()
	}
	close(p.gone)
}

// readLine reads a line of any length that a row may have. One that lacks its
// end is no answer.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case len(line) > dataset.MaxLineBytes:
			return nil, fmt.Errorf("the answer is longer than %d MiB", dataset.MaxLineBytes>>20)
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// ready reports that a process waits for a row: that it has said nothing since
// its last answer, and is still there.
func (p *child) ready() bool {
	select {
	case <-p.lines:
		return false
	default:
		return true
	}
}

// ask gives a row to the process and waits for its answer.
func (p *child) ask(ctx context.Context, row query.Row) (dataset.Annotation, error) {
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) })
	defer stop()
	_, writeErr := p.in.Write(question(row)) // of a process that has ended: then it has no answer either
	got, ok := <-p.lines
	switch {
	case ctx.Err() != nil:
		return dataset.Annotation{}, context.Cause(ctx)
	case ok && writeErr != nil:
		return dataset.Annotation{}, errors.New("the process answered before it had read the row")
	case ok && got.more:
		return dataset.Annotation{}, errors.New("the process answered with more than one line")
	case ok:
		return answer(got.line, row)
	case p.bad != nil:
		return dataset.Annotation{}, p.bad
	}
	<-p.gone
	return dataset.Annotation{}, &diedError{p.how}
}

// question is the line that a process gets for a row.
func question(row query.Row) []byte {
	q := append(make([]byte, 0, len(row.Raw)+128), `{"id":`...)
	q = appendString(q, row.ID)
	q = appendString(append(q, `,"batch":`...), row.Batch)
	q = append(q, `,"data":{`...)
	first := true
	for name, value := range row.Fields() {
		if name == dataset.IDColumn || name == dataset.CreatedAtColumn {
			continue
		}
		if !first {
			q = append(q, ',')
		}
		first = false
		q = append(append(appendString(q, name), ':'), value...)
	}
	return append(q, "}}\n"...)
}

func appendString(dst []byte, s string) []byte {
	b, err := encode(s)
	if err != nil {
		b = []byte(`""`) // stored rows are UTF-8
	}
	for len(b) > 0 && b[len(b)-1] == '\n' {
		b = b[:len(b)-1]
	}
	return append(dst, b...)
}

// answer reads what a process says of a row.
func answer(line []byte, row query.Row) (dataset.Annotation, error) {
	parsed, err := dataset.ParseRow(line)
	if err != nil {
		return dataset.Annotation{}, errors.New("the answer is no JSON object")
	}
	var ann dataset.Annotation
	var failure *answerError
	for name, value := range parsed.Fields() {
		switch name {
		case "data":
			ann.Data = json.RawMessage(value)
		case "metadata":
			if string(value) != "null" {
				ann.Metadata = json.RawMessage(value)
			}
		case "error":
			if string(value) == "null" {
				continue
			}
			var text string
			if json.Unmarshal(value, &text) != nil {
				text = string(value)
			}
			failure = &answerError{text}
		}
	}
	switch {
	case parsed.ID != "" && parsed.ID != row.ID:
		return dataset.Annotation{}, errors.New("the answer bears the id of another row")
	case failure != nil:
		return dataset.Annotation{Metadata: ann.Metadata}, failure
	case ann.Data == nil:
		return dataset.Annotation{}, errors.New(`the answer has neither "data" nor "error"`)
	}
	return ann, nil
}

// kill ends the process and all that it has started.
func (p *child) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	_ = p.in.Close()
	for range p.lines {
	}
	<-p.gone
}

// end lets the process end by itself.
func (p *child) end(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) })
	defer stop()
	_ = p.in.Close()
	for range p.lines {
	}
	<-p.gone
}
