package main

import (
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how far long work is. It is safe for concurrent use.
type progress interface {
	Add(n int64)
	Say(label string)
	Done()
}

// progress starts a bar on a terminal, and nothing elsewhere. total is in the
// unit of Add, -1 where it is not known.
func (a *app) progress(label string, total int64) progress {
	f, ok := a.stderr.(*os.File)
	if !ok || a.json || !term.IsTerminal(int(f.Fd())) {
		return noProgress{}
	}
	return bar{progressbar.NewOptions64(total,
		progressbar.OptionSetDescription(label),
		progressbar.OptionSetWriter(io.Writer(f)),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionThrottle(100e6),
		progressbar.OptionClearOnFinish(),
	)}
}

type bar struct{ b *progressbar.ProgressBar }

func (b bar) Add(n int64)  { _ = b.b.Add64(n) }
func (b bar) Say(s string) { b.b.Describe(s) }
func (b bar) Done()        { _ = b.b.Finish() }

type noProgress struct{}

func (noProgress) Add(int64)  {}
func (noProgress) Say(string) {}
func (noProgress) Done()      {}

// phases shows work that has several phases, a bar for each.
type phases struct {
	app   *app
	phase string
	done  int64
	bar   progress
}

// at says how far a phase is.
func (p *phases) at(phase string, done, total int64) {
	if phase != p.phase {
		p.end()
		p.phase, p.done, p.bar = phase, 0, p.app.progress(phase, total)
	}
	p.bar.Add(done - p.done)
	p.done = done
}

// end takes the last bar away.
func (p *phases) end() {
	if p.bar != nil {
		p.bar.Done()
	}
}
