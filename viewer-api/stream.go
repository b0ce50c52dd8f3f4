package viewerapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net"
	"net/url"
	"runtime/debug"
	"time"

	"github.com/gofiber/fiber/v3"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/query"
)

// stallTime is how long whoever takes a stream may take nothing.
const stallTime = 30 * time.Second

// rowStream is a download under way. It is written by a goroutine of its own,
// at the speed of its reader: what waits is what fits in the buffers of the
// connection.
type rowStream struct {
	s    *Server
	ctx  context.Context // of this stream alone
	conn net.Conn
	name string
	p    dataParams

	next    func() (query.Row, error, bool)
	first   *query.Row // nil: there are no rows
	unknown []string   // columns of the filter that no row had, after the last row
	release func()
}

// stream answers /data with format=ndjson or csv. The first row is read before
// the answer begins, so that what is wrong from the start has its status.
func (s *Server) stream(c fiber.Ctx, name string, p dataParams) error {
	leave, err := s.turn(s.streams)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(s.ctx)
	r := &rowStream{s: s, ctx: ctx, conn: c.RequestCtx().Conn(), name: name, p: p}
	next, stop := iter.Pull2(s.engine.Rows(ctx, query.Options{
		Dataset: name, Batches: p.batches, Live: true, Limit: int64(p.limit), WorkDir: s.cfg.WorkDir,
		Annotators: p.annotators, Where: p.where, Unknown: func(names []string) { r.unknown = names },
	}))
	r.next, r.release = next, func() { cancel(); stop(); leave() }
	first, err, ok := next()
	if err != nil {
		r.release()
		return err
	}
	if ok {
		r.first = &first
	}
	c.Set("X-Accel-Buffering", "no") // the proxy would write it to its disk
	if c.Method() == fiber.MethodHead || !s.enter() {
		r.release()
		return nil
	}
	write := r.ndjson
	c.Set(fiber.HeaderContentType, "application/x-ndjson; charset=utf-8")
	if p.format == "csv" {
		write = r.csv
		c.Set(fiber.HeaderContentType, "text/csv; charset=utf-8")
		c.Set(fiber.HeaderContentDisposition, "attachment; filename=\"rows.csv\"; filename*=UTF-8''"+url.PathEscape(name)+".csv")
	}
	return c.SendStreamWriter(func(w *bufio.Writer) {
		defer s.leftover.Done()
		defer r.release()
		defer func() {
			if v := recover(); v != nil {
				s.log.Error("a stream panicked", keyErr, v, "stack", string(debug.Stack()))
				_ = r.conn.Close()
			}
		}()
		write(w)
	})
}

// withBatch adds the batch to columns: an id alone does not name a row.
func withBatch(columns []string) []string {
	if columns == nil {
		return nil
	}
	return append(columns[:len(columns):len(columns)], dataset.BatchColumn)
}

// out passes bytes on, and gives the reader time again each time it takes some.
type out struct {
	w    *bufio.Writer
	conn net.Conn
}

func (o out) Write(b []byte) (int, error) {
	if err := o.conn.SetWriteDeadline(time.Now().Add(stallTime)); err != nil {
		return 0, err
	}
	return o.w.Write(b)
}

// each gives every row to write.
func (r *rowStream) each(write func(query.Row) error) (n int64, err error) {
	for row := r.first; row != nil; {
		if err := write(*row); err != nil {
			return n, writeError{err}
		}
		n++
		following, err, ok := r.next()
		if err != nil {
			return n, err
		}
		if !ok {
			break
		}
		row = &following
	}
	return n, nil
}

// writeError is a failure of the reader of a stream, who need not be told.
type writeError struct{ error }

func (e writeError) Unwrap() error { return e.error }

// ndjson writes one typed line per row, and at the end says that it was the end.
func (r *rowStream) ndjson(w *bufio.Writer) {
	o := out{w, r.conn}
	meta, err := plainJSON(struct {
		Type    string   `json:"type"`
		Dataset string   `json:"dataset"`
		Columns []string `json:"columns"` // null: all
		// Annotators whose layers come along.
		Annotators []string `json:"annotators,omitempty"`
	}{"meta", r.name, r.p.columns, r.p.annotators})
	if err != nil {
		r.s.log.Error("a stream failed", keyErr, err)
		return
	}
	if _, err := o.Write(append(meta, '\n')); err != nil {
		return
	}
	_ = w.Flush()
	var cut *query.Projection
	if r.p.columns != nil {
		if cut, err = query.NewProjection(withBatch(r.p.columns), r.p.annotators...); err != nil {
			r.end(o, 0, err)
			return
		}
	}
	var line []byte
	n, err := r.each(func(row query.Row) error {
		line = append(line[:0], `{"type":"row","row":`...)
		line = query.Shown(line, row, cut)
		_, err := o.Write(append(line, "}\n"...))
		return err
	})
	r.end(o, n, err)
	_ = w.Flush()
}

// end writes the last line: without one the stream was cut.
func (r *rowStream) end(o out, n int64, err error) {
	var gone writeError
	switch {
	case errors.As(err, &gone):
		return
	case err == nil:
		done, err := plainJSON(struct {
			Type    string   `json:"type"`
			Rows    int64    `json:"rows"`
			Unknown []string `json:"unknown_columns,omitempty"`
		}{"done", n, r.unknown})
		if err == nil {
			_, _ = o.Write(append(done, '\n'))
		}
		return
	}
	p := problemOf(err)
	p.Request = newRequestID()
	r.s.log.Error("a stream failed", keyRequest, p.Request, keyErr, err)
	line, err := json.Marshal(struct {
		Type string `json:"type"` // in place of the problem's
		Problem
	}{"error", p})
	if err == nil {
		_, _ = o.Write(append(line, '\n'))
	}
}

// csv writes a table. It has no place for an error, so one breaks the
// connection, which every client reports.
func (r *rowStream) csv(w *bufio.Writer) {
	o := out{w, r.conn}
	table, err := query.NewCSV(o, withBatch(r.p.columns), r.s.cfg.WorkDir, r.p.annotators...)
	if err == nil {
		defer table.Discard()
		_, err = r.each(func(row query.Row) error {
			if r.p.columns == nil { // then the columns are those that rows bring
				line, err := query.Project(row, nil, true)
				if err != nil {
					return err
				}
				row.Raw = line
			}
			return table.Write(row)
		})
		if err == nil {
			if err = table.Close(); err != nil {
				err = writeError{err}
			}
		}
	}
	if err == nil {
		_ = w.Flush()
		return
	}
	var gone writeError
	if !errors.As(err, &gone) {
		r.s.log.Error("a download failed", keyErr, err)
	}
	_ = r.conn.Close()
}
