package query

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/cache"
)

// Column describes a column of a dataset, from the rows that were looked at.
type Column struct {
	Name  string   `json:"name"`
	Types []string `json:"types"` // of "string", "number", "boolean", "object", "array"; sorted
	Nulls int64    `json:"nulls"` // rows, of those looked at, where it is null or missing
	// Lean columns hold booleans, numbers or strings of at most 64 bytes, of one
	// type: an index can keep them.
	Lean   bool   `json:"lean"`
	Source string `json:"source"` // "base", or the annotator
	Rows   int64  `json:"rows"`   // that were looked at
	Sample bool   `json:"sample"` // these were not all rows
}

// What is looked at for a schema: of at most so many blocks the first rows and
// some from the middle, and so many live chunks.
const (
	sampleBlocks = 16
	sampleFrames = 2 // of each block
	sampleChunks = 16
	sampleBytes  = 64 << 10 // of a block whose frames are not known
	sampleRows   = 2048     // that are walked over beside the annotations of a frame or chunk
	leanBytes    = 64
)

// Schema tells the columns of a dataset, id and _created_at first, then in order
// of appearance, and after them those of its layers, from the rows of some frames
// and live chunks. Where these were not all rows, each Column says that it comes
// from a sample: there may be more columns and types.
func (e *Engine) Schema(ctx context.Context, name string) ([]Column, error) {
	q := e.ask(ctx)
	defer func() { e.m.bytesRead.Add(float64(q.read.Load())) }()
	views, err := q.open(name, nil)
	if err != nil {
		return nil, err
	}
	s := &schemaOf{at: map[string]int{}}
	for _, n := range []string{dataset.IDColumn, dataset.CreatedAtColumn} {
		s.column(n)
	}
	if s, err = q.sample(s, views); err != nil {
		return nil, err
	}
	annotators, err := q.annotators(ctx, name)
	if err != nil {
		return nil, err
	}
	layers := make([]*schemaOf, len(annotators))
	err = q.each(len(annotators), func(_ context.Context, i int) error {
		parts, err := q.partsOf(name, annotators[i], views)
		if err != nil {
			return err
		}
		parts = slices.DeleteFunc(parts, func(v *view) bool { return !v.there() })
		layers[i], err = q.sample(&schemaOf{at: map[string]int{}, layer: annotators[i]}, parts)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := s.columns()
	for _, l := range layers {
		out = append(out, l.columns()...)
	}
	return out, nil
}

// sample looks at rows of batches, or at annotations.
func (q *ask) sample(s *schemaOf, views []*view) (*schemaOf, error) {
	for _, v := range views {
		for {
			was := s.clone()
			err := q.sampleView(s, v, len(views))
			var lost *lostError
			if err == nil {
				break
			}
			if !errors.As(err, &lost) || errors.Is(err, errPermanent) || !gone(err) && !damaged(err) {
				return nil, err
			}
			if err := q.again(v, lost.key, lost.chunk, lost); err != nil {
				return nil, err
			}
			s = was // its rows are looked at anew
		}
	}
	return s, nil
}

// sampleView looks at rows of a batch, the more the fewer batches there are.
func (q *ask) sampleView(s *schemaOf, v *view, of int) error {
	if v.head.Record.Deleted {
		return nil
	}
	blocks, err := sortedBlocks(v)
	if err != nil {
		return err
	}
	most := max(1, sampleBlocks/of)
	s.sample = s.sample || len(blocks) > most
	for _, i := range spread(len(blocks), most) {
		b := blockOf{blocks[i], v.id}
		if err := q.sampleBlock(s, b); err != nil {
			return (&mergedLane{}).lost(b, err)
		}
		if err := q.keepAnnotations(s, v.id); err != nil {
			return err
		}
	}
	most = max(1, sampleChunks/of)
	s.sample = s.sample || len(v.chunks) > most
	for _, i := range spread(len(v.chunks), most) {
		if err := q.sampleChunk(s, v.chunks[i]); err != nil {
			return lostChunk(v.chunks[i], err)
		}
		if err := q.keepAnnotations(s, v.id); err != nil {
			return err
		}
	}
	return nil
}

// keepAnnotations takes those of the annotations that wait whose rows are there:
// a merge may have dropped a row as a duplicate, and its annotation stays. Where
// rows lie far apart, only the first ones are looked for.
func (q *ask) keepAnnotations(s *schemaOf, part dataset.BatchID) error {
	waiting := s.waiting
	if s.waiting = nil; len(waiting) == 0 {
		return nil
	}
	slices.SortFunc(waiting, func(a, b dataset.Row) int { return strings.Compare(a.ID, b.ID) })
	v := newView(dataset.BatchID{Dataset: part.Dataset, Batch: part.Batch})
	if err := q.look(q.ctx, v, false); err != nil || !v.there() {
		return err
	}
	w, err := q.newWalk([]*view{v}, spot{Cursor: Cursor{ID: waiting[0].ID}}, false, len(waiting))
	if err != nil {
		return err
	}
	row, err := w.next()
	walked := 1
	for _, r := range waiting {
		for ; err == nil && row.ID < r.ID; walked++ {
			if walked == sampleRows {
				s.sample = true
				return nil
			}
			row, err = w.next()
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if row.ID == r.ID {
			s.addAnnotation(r)
		}
	}
	return nil
}

// sampleBlock looks at the first frame of a block and at the one in the middle.
// A block without an index is not read whole for this: its first bytes do.
func (q *ask) sampleBlock(s *schemaOf, b blockOf) error {
	frames, err := q.sampleFrames(b)
	if errors.Is(err, errNoTable) {
		return q.sampleHead(s, b)
	}
	if err != nil {
		return err
	}
	s.sample = s.sample || len(frames) > sampleFrames
	for _, i := range spread(len(frames), sampleFrames) {
		if err := q.frameRows(q.ctx, b, frames, i, s.add); err != nil {
			if damaged(err) {
				q.forget(b, frames[i])
			}
			return err
		}
	}
	return nil
}

// sampleFrames gives the frame table of a block, but errNoTable where a large
// block would have to be read for it.
func (q *ask) sampleFrames(b blockOf) ([]block.Frame, error) {
	if _, ok := q.e.tables.Peek(b.part("frames")); ok || b.Bytes <= sampleBytes || dataset.IsParquetBlock(b.File) {
		return q.frames(q.ctx, b)
	}
	frames, err := q.indexedFrames(q.ctx, b)
	if err == nil {
		q.e.tables.Put(b.part("frames"), frames, sizeOfFrames(frames))
	}
	return frames, err
}

// sampleHead looks at the rows in the first bytes of a block.
func (q *ask) sampleHead(s *schemaOf, b blockOf) error {
	s.sample = true
	raw, err := q.e.kept(q.ctx, b.part(cache.Range(0, sampleBytes)), func() ([]byte, error) {
		body, _, err := q.store.Get(q.ctx, b.key(), objstore.Span{Length: sampleBytes})
		if err != nil {
			return nil, err
		}
		defer body.Close()
		return io.ReadAll(body)
	})
	if err != nil {
		return err
	}
	in := block.NewReader(bytes.NewReader(raw), nil)
	for n := 0; ; n++ {
		r, err := in.Next()
		if err != nil {
			if n == 0 && !errors.Is(err, io.ErrUnexpectedEOF) {
				return err
			}
			return nil // it was cut where it was
		}
		s.add(r)
	}
}

// sampleChunk looks at the first rows of a live chunk.
func (q *ask) sampleChunk(s *schemaOf, c catalog.Chunk) error {
	if c.Size <= smallChunk {
		body, err := q.chunkBody(q.ctx, c)
		if err != nil {
			return err
		}
		return s.addLines(bytes.NewReader(body), c)
	}
	s.sample = true
	raw, err := q.chunkPart(q.ctx, c, 0, chunkWindow)
	if err != nil {
		return err
	}
	return s.addLines(bytes.NewReader(raw[:bytes.LastIndexByte(raw, '\n')+1]), c)
}

// spread picks n of the numbers below all, evenly, the first one among them.
func spread(all, n int) []int {
	var out []int
	for i := range min(n, all) {
		out = append(out, i*all/min(n, all))
	}
	return out
}

// schemaOf collects what rows say of their columns.
type schemaOf struct {
	layer  string // the annotator whose annotations the rows are; empty: none
	at     map[string]int
	list   []columnOf
	rows   int64
	sample bool
	// waiting are annotations that count if their rows are there.
	waiting []dataset.Row
}

type columnOf struct {
	name   string
	kinds  [5]bool // as in kindNames
	values int64   // that are not null
	long   bool    // a string of more than leanBytes
}

var kindNames = [5]string{"array", "boolean", "number", "object", "string"}

func kindOf(v []byte) int {
	switch v[0] {
	case '[':
		return 0
	case 't', 'f':
		return 1
	case '{':
		return 3
	case '"':
		return 4
	}
	return 2
}

func (s *schemaOf) column(name string) *columnOf {
	i, ok := s.at[name]
	if !ok {
		if len(s.list) == maxPageColumns {
			s.sample = true
			return nil
		}
		i = len(s.list)
		s.at[name] = i
		s.list = append(s.list, columnOf{name: name})
	}
	return &s.list[i]
}

func (s *schemaOf) add(r dataset.Row) {
	if s.layer != "" {
		s.waiting = append(s.waiting, dataset.Row{ID: r.ID, Raw: bytes.Clone(r.Raw)})
		return
	}
	s.rows++
	s.addFields(r)
}

func (s *schemaOf) addAnnotation(r dataset.Row) {
	s.rows++
	for name, v := range r.Fields() {
		switch {
		case name == dataMember && v[0] == '{':
			s.addFields(dataset.Row{Raw: v})
		case name == metadataMember:
			s.addField(metadataField, v)
		}
	}
}

func (s *schemaOf) addFields(r dataset.Row) {
	for name, v := range r.Fields() {
		if s.layer == "" || name != metadataField {
			s.addField(name, v)
		}
	}
}

func (s *schemaOf) addField(name string, v []byte) {
	if s.layer != "" {
		name = s.layer + "." + name
	}
	c := s.column(name)
	if c == nil || v[0] == 'n' {
		return
	}
	c.values++
	c.kinds[kindOf(v)] = true
	c.long = c.long || v[0] == '"' && len(v)-2 > leanBytes && len(text(v)) > leanBytes
}

func (s *schemaOf) addLines(in io.Reader, c catalog.Chunk) error {
	for row, err := range chunkRows(in, c, nil) {
		if err != nil {
			return fmt.Errorf("read %s: %w", c.Key(), err)
		}
		s.add(row)
	}
	return nil
}

func (s *schemaOf) clone() *schemaOf {
	c := *s
	c.list = slices.Clone(s.list)
	c.at = make(map[string]int, len(s.at))
	for k, v := range s.at {
		c.at[k] = v
	}
	return &c
}

func (s *schemaOf) columns() []Column {
	out := make([]Column, 0, len(s.list))
	for _, c := range s.list {
		col := Column{Name: c.name, Types: []string{}, Nulls: s.rows - c.values, Source: cmp.Or(s.layer, "base"), Rows: s.rows, Sample: s.sample}
		for i, has := range c.kinds {
			if has {
				col.Types = append(col.Types, kindNames[i])
			}
		}
		nested := c.kinds[0] || c.kinds[3]
		col.Lean = len(col.Types) == 1 && !nested && !c.long
		out = append(out, col)
	}
	return out
}
