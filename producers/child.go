package producers

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os/exec"
	"syscall"

	"github.com/siltstone-data/siltstone/dataset"
)

// child is one process of Children.
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
		case len(line) > dataset.MaxLineBytes:
			return nil, callErrorf(KindOversized, "the answer is longer than %d MiB", dataset.MaxLineBytes>>20)
		case err == nil:
			return line[:len(line)-1], nil
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

// ask gives a line to the process and waits for its answer. The end of ctx kills
// it.
func (p *child) ask(ctx context.Context, question []byte) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) })
	defer stop()
	_, writeErr := p.in.Write(question) // of a process that has ended: then it has no answer either
	got, ok := <-p.lines
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case ok && writeErr != nil:
		return nil, callErrorf(KindGarbage, "the process answered before it had read the row")
	case ok && got.more:
		return nil, callErrorf(KindGarbage, "the process answered with more than one line")
	case ok:
		return got.line, nil
	case p.bad != nil:
		return nil, p.bad
	}
	<-p.gone
	return nil, callErrorf(KindDied, "the process ended: %s", p.how)
}

// kill ends the process and all that it has started.
func (p *child) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	_ = p.in.Close()
	for range p.lines {
	}
	<-p.gone
}

// end lets the process end by itself, until ctx does.
func (p *child) end(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) })
	defer stop()
	_ = p.in.Close()
	for range p.lines {
	}
	<-p.gone
}
