package viewerapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v3"

	"github.com/siltstone-data/siltstone/query"
)

// data answers GET /api/datasets/D/data: a page, or all rows as a stream.
func (s *Server) data(c fiber.Ctx) error {
	name, err := datasetName(c)
	if err != nil {
		return err
	}
	v, err := values(c, dataNames...)
	if err != nil {
		return err
	}
	p, err := parseData(v)
	if err != nil {
		return err
	}
	if p.format != "json" {
		return s.stream(c, name, p)
	}
	ctx, leave, err := s.within(c)
	if err != nil {
		return err
	}
	defer leave()
	page, err := s.engine.Page(ctx, query.PageRequest{
		Dataset: name, Batches: p.batches, Columns: p.columns, Limit: p.limit, Cursor: p.cursor, Desc: p.desc, Clip: p.clip,
		Annotators: p.annotators, Where: p.where,
	})
	if err != nil {
		return err
	}
	body, err := pageBody(page)
	if err != nil {
		return err
	}
	c.Set("Server-Timing", fmt.Sprintf("page;dur=%.3f", float64(page.Took)/float64(time.Millisecond)))
	return sendJSON(c, body)
}

// pageBody encodes a page. Rows are put in as they are: to encode them again
// would rewrite what the writer wrote.
func pageBody(p query.Page) ([]byte, error) {
	var b bytes.Buffer
	size := 0
	for _, r := range p.Rows {
		size += len(r) + 1
	}
	b.Grow(size + 256)
	columns, err := plainJSON(list(p.Columns))
	if err != nil {
		return nil, err
	}
	b.WriteString(`{"columns":`)
	b.Write(columns)
	b.WriteString(`,"rows":[`)
	for i, r := range p.Rows {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(r)
	}
	rest, err := plainJSON(struct {
		Next      *string `json:"next_cursor"` // null: nothing comes behind
		Prev      *string `json:"prev_cursor"`
		LiveRows  *int64  `json:"live_rows"` // null: unknown
		TookMS    float64 `json:"took_ms"`
		BytesRead int64   `json:"bytes_read"`
		// Unknown are the columns of the filter that no row has.
		Unknown []string `json:"unknown_columns,omitempty"`
	}{cursor(p.Next), cursor(p.Prev), known(p.LiveRows), millis(p.Took), p.BytesRead, p.Unknown})
	if err != nil {
		return nil, err
	}
	b.WriteString(`],`)
	b.Write(rest[1:])
	b.WriteByte('\n')
	return b.Bytes(), nil
}

func cursor(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// plainJSON encodes without the escapes that only HTML would need.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// rows answers GET /api/datasets/D/rows/ID, and rows?id=ID for the ids that no
// path can hold: a browser takes "." and ".." out of every path, encoded or not.
func (s *Server) rows(c fiber.Ctx) error {
	name, err := datasetName(c)
	if err != nil {
		return err
	}
	v, err := values(c, "batch", "id")
	if err != nil {
		return err
	}
	id, err := pathName(c, "id")
	if err != nil {
		return err
	}
	if id == "" {
		id = v.Get("id")
	}
	if id == "" {
		return badRequest("which row? want rows/ID or rows?id=ID")
	}
	parts, err := batches(v)
	if err != nil {
		return err
	}
	if len(parts) > 1 {
		return badRequest("batch: one or none")
	}
	batch := ""
	if len(parts) == 1 {
		batch = parts[0]
	}
	ctx, leave, err := s.within(c)
	if err != nil {
		return err
	}
	defer leave()
	found, err := s.engine.Row(ctx, name, id, batch)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return refuse(http.StatusNotFound, "there is no row %q", id)
	}
	var b bytes.Buffer
	lives := make([]bool, len(found))
	b.WriteString(`{"rows":[`)
	for i, r := range found {
		lives[i] = r.Live
		if i > 0 {
			b.WriteByte(',')
		}
		line, err := query.Project(r.Row, nil, true)
		if err != nil {
			return err
		}
		b.Write(line)
	}
	of, err := plainJSON(lives)
	if err != nil {
		return err
	}
	b.WriteString(`],"live":`) // for each row, whether it is still to be merged
	b.Write(of)
	b.WriteString(`,"annotations":[`) // for each row, by annotator
	for i, r := range found {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := writeAnnotations(&b, r.Annotations); err != nil {
			return err
		}
	}
	b.WriteString("]}\n")
	return sendJSON(c, b.Bytes())
}

// writeAnnotations writes the annotations of a row, each as it is stored, and
// whether it is still to be merged.
func writeAnnotations(b *bytes.Buffer, all []query.Annotation) error {
	b.WriteByte('{')
	for i, a := range all {
		name, err := plainJSON(a.Annotator)
		if err != nil {
			return err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(name)
		fmt.Fprintf(b, `:{"live":%v,"annotation":%s}`, a.Live, a.Raw)
	}
	b.WriteByte('}')
	return nil
}
