package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/siltstone-data/siltstone/query"
)

// resume takes up what an earlier process has left, or begins: it pins what is
// read, so that both read the same.
func (e *exporting) resume(ctx context.Context) error {
	p := e.partial
	req, err := e.request()
	if err != nil {
		return err
	}
	if !p.begun {
		pins, err := query.TakePins(ctx, e.app.store, e.opts)
		if err != nil {
			return err
		}
		return p.save(resumeState{Version: resumeVersion, Request: req, Pins: pins, LeftOut: e.res.LeftOut, SHA256: e.enc.sha256()})
	}
	if diff := req.differs(p.state.Request); diff != nil {
		return exit(exitUsage, fmt.Errorf("%w: %s was begun with another value of %s; %s", errResume, e.Output, strings.Join(diff, ", "), p.anew()))
	}
	e.res.LeftOut = p.state.LeftOut
	e.enc.resume(p)
	if p.state.Done != nil {
		return e.again(*p.state.Done)
	}
	return nil
}

// again ends an export that had all but its name, or what lies beside it.
func (e *exporting) again(m exportManifest) error {
	s := e.partial.state
	e.res.Rows, e.res.Bytes, e.res.FileBytes, e.res.SHA256 = s.Rows, s.Raw, s.Bytes, s.SHA256
	e.res.UnknownColumns, e.res.MissingColumns, e.res.AbsentBatches = s.Unknown, s.Missing, s.Pins.Absent
	return e.settle(e.partial, e.partial, m)
}

// muted lets the writer write a header that is in the file already.
func (e *exporting) muted() error {
	f, ok := e.w.(flusher)
	if e.partial == nil || e.partial.state.Rows == 0 || !ok {
		return nil
	}
	e.enc.mute = true
	err := f.Flush()
	e.enc.mute = false
	return err
}

// state is how far the export is at the end of a stretch.
func (e *exporting) state() resumeState {
	s := resumeState{
		Version: resumeVersion, Request: e.partial.state.Request, Pins: e.partial.state.Pins, LeftOut: e.res.LeftOut,
		Rows: e.res.Rows, Raw: e.enc.raw, Bytes: e.enc.bytes, SHA256: e.enc.sha256(),
		Missing: e.soFar(e.w.Missing(), func(s resumeState) []string { return s.Missing }),
	}
	unknown := e.unknown
	if e.opened.Unknown != nil {
		unknown = e.opened.Unknown()
	}
	s.Unknown = e.soFar(unknown, func(s resumeState) []string { return s.Unknown })
	switch {
	case len(e.opts.Sort) > 0 || s.Rows == 0:
	case e.last == query.Cursor{}:
		s.After = e.partial.state.After
	default:
		s.After = &e.last
	}
	return s
}

// soFar leaves of columns that no row has had in this process those that none had
// before it.
func (e *exporting) soFar(now []string, before func(resumeState) []string) []string {
	if e.partial == nil || e.partial.state.Rows == 0 {
		return now
	}
	had := before(e.partial.state)
	return slices.DeleteFunc(slices.Clone(now), func(c string) bool { return !slices.Contains(had, c) })
}
