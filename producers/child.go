package producers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
)

// child is one process of Children. One goroutine at a time uses it.
type child struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     syscall.RawConn
	said    []byte // since it was asked
	lines   []int  // where lines of it end
	answers [][]byte
	part    [32 << 10]byte
	how     string // it ended; empty before that is known
}

// What may be found of a process before it is asked.
var (
	errUnasked = callErrorf(KindGarbage, "the process spoke before it was asked")
	errGone    = callErrorf(KindDied, "the process ended before it was asked")
	errMore    = callErrorf(KindGarbage, "the process answered with more than one line")
)

// startChild starts a process in a group of its own, so that an interrupt from
// the terminal is for us to handle, and that what it starts ends with it.
func startChild(argv []string, stderr io.Writer) (*child, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = childGrace // a grandchild may keep standard error open
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	conn, ok := out.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("a pipe of %T cannot be waited for", out)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &child{cmd: cmd, in: in, out: raw}, nil
}

// ask gives lines to the process and waits for as many answers, which are valid
// until the next call: fewer come with an error, which is that of the next one.
// The end of ctx kills the process.
//
// A process that has said something since its last answer, or is gone, is not
// asked: that is errUnasked or errGone. A look at its output right before tells;
// look, questions and wait are one turn of the poller, which costs a goroutine
// less for each row than somebody who listens all the time.
func (p *child) ask(ctx context.Context, questions []byte, n int) (answers [][]byte, err error) {
	stop := context.AfterFunc(ctx, p.signal)
	defer stop()
	p.said, p.lines = p.said[:0], p.lines[:0]
	var asked bool
	var writeErr, readErr error
	err = p.out.Read(func(fd uintptr) bool {
		if !asked {
			switch _, err := p.read(fd); err {
			case syscall.EAGAIN:
			case nil:
				readErr = errUnasked
				return true
			default:
				readErr = errGone
				return true
			}
			asked = true
			writeErr = p.write(questions)
			return false
		}
		for len(p.lines) < n {
			got, err := p.read(fd)
			if err == syscall.EAGAIN {
				return false
			}
			if err == nil {
				err = p.hear(p.part[:got])
			}
			if err != nil {
				readErr = err
				return true
			}
		}
		return true
	})
	if readErr != nil {
		err = readErr
	}
	from := 0
	for _, end := range p.lines[:min(n, len(p.lines))] {
		p.answers = append(p.answers[:len(answers)], p.said[from:end])
		answers, from = p.answers, end+1
	}
	switch {
	case ctx.Err() != nil:
		return answers, context.Cause(ctx)
	case errors.Is(err, io.EOF):
		return answers, callErrorf(KindDied, "the process ended: %s", p.wait())
	case err != nil:
		return answers, err
	case writeErr != nil:
		return nil, callErrorf(KindGarbage, "the process answered before it had read the row")
	case from != len(p.said):
		return nil, errMore
	}
	return answers, nil
}

// hear takes what the process has said, and notes where lines end.
func (p *child) hear(part []byte) error {
	for i, c := range part {
		if c == '\n' {
			p.lines = append(p.lines, len(p.said)+i)
		}
	}
	p.said = append(p.said, part...)
	last := 0
	if len(p.lines) > 0 {
		last = p.lines[len(p.lines)-1]
	}
	if len(p.said)-last > dataset.MaxLineBytes {
		return callErrorf(KindOversized, "the answer is longer than %d MiB", dataset.MaxLineBytes>>20)
	}
	return nil
}

// read reads what there is, and gives EAGAIN where there is nothing yet.
func (p *child) read(fd uintptr) (int, error) {
	for {
		n, err := syscall.Read(int(fd), p.part[:])
		switch {
		case err == syscall.EINTR:
			continue
		case err == nil && n == 0:
			return 0, io.EOF
		}
		return n, err
	}
}

// pipeRoom is what an empty pipe takes without making its writer wait.
const pipeRoom = 32 << 10

// write writes the question. A long one is written by somebody else: a process
// that speaks before it has read all of it would wait for us, and we for it.
func (p *child) write(question []byte) error {
	if len(question) <= pipeRoom {
		_, err := p.in.Write(question)
		return err
	}
	go func(question []byte) { _, _ = p.in.Write(question) }(bytes.Clone(question))
	return nil
}

func (p *child) signal() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }

// kill ends the process and all that it has started.
func (p *child) kill() {
	if p.how == "" {
		p.signal()
		p.wait()
	}
}

// wait waits for the end of a process that has closed its output or was killed,
// and says how that was.
func (p *child) wait() string {
	_ = p.in.Close()
	late := time.AfterFunc(childGrace, p.signal)
	defer late.Stop()
	p.how = "exit status 0"
	if err := p.cmd.Wait(); err != nil {
		p.how = err.Error()
	}
	return p.how
}
