package query

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// load is one reading of a live chunk. It is dead when it broke off, or when
// the chunk's rows have come to lie in blocks.
type load struct {
	chunk  catalog.Chunk
	number uint32
	dead   bool
}

const (
	smallChunk = 1 << 20 // chunks up to this size are fetched ahead, several at once
	sortBudget = 64 << 20
)

// loadLive sorts the rows of the live chunks of batches into a new source,
// leaving out chunks that are loaded already, and lets those loads die whose
// chunk is not live any more.
func (r *reader) loadLive(batches []*batch) error {
	var todo []job
	var size int64
	for _, b := range batches {
		for _, c := range b.sift() {
			todo = append(todo, job{b, c})
			size += c.Size
		}
		b.chunks = nil
	}
	if len(todo) == 0 {
		return nil
	}
	s := &live{r: r, sorter: block.NewSorter(r.o.WorkDir, min(sortBudget, max(1<<20, 2*size)))}
	r.arrived = append(r.arrived, s)
	for len(todo) > 0 {
		n := min(len(todo), 4*r.o.parallel())
		if err := r.loadSome(s.sorter, todo[:n]); err != nil {
			return err
		}
		todo = todo[n:]
	}
	var err error
	if s.rows, err = s.sorter.Sort(); err != nil {
		return fmt.Errorf("sort live rows: %w", err)
	}
	return nil
}

// job is a chunk to be read.
type job struct {
	b     *batch
	chunk catalog.Chunk
}

// sift compares the loads of a batch with its new list of live chunks, and
// gives the chunks that are not loaded.
func (b *batch) sift() []catalog.Chunk {
	fresh := make(map[version]bool, len(b.chunks))
	for _, c := range b.chunks {
		fresh[versionOf(c)] = true
	}
	kept := b.loads[:0]
	for _, l := range b.loads {
		if v := versionOf(l.chunk); fresh[v] {
			delete(fresh, v)
			kept = append(kept, l)
		} else {
			l.dead = true
		}
	}
	b.loads = kept
	var todo []catalog.Chunk
	for _, c := range b.chunks {
		if fresh[versionOf(c)] {
			todo = append(todo, c)
		}
	}
	return todo
}

// version is a chunk's content within its batch.
type version struct {
	run    dataset.Run
	number int
	etag   string
}

func versionOf(c catalog.Chunk) version { return version{c.Run, c.Number, c.ETag} }

// loadSome fetches the small ones of some chunks together, for a store answers
// many requests in the time of one, and adds the rows of all to the sorter.
func (r *reader) loadSome(s *block.Sorter, jobs []job) error {
	bodies := make([][]byte, len(jobs))
	errs := make([]error, len(jobs))
	err := each(r.ctx, r.o.parallel(), len(jobs), func(ctx context.Context, i int) error {
		if c := jobs[i].chunk; c.Size <= smallChunk {
			bodies[i], errs[i] = fetch(ctx, r.store, c)
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	for i, j := range jobs {
		if err := r.load(s, j, bodies[i], errs[i]); err != nil {
			return err
		}
	}
	return nil
}

func fetch(ctx context.Context, s objstore.Store, c catalog.Chunk) ([]byte, error) {
	body, _, err := s.Get(ctx, c.Key(), objstore.Span{ETag: c.ETag})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	raw := bytes.NewBuffer(make([]byte, 0, max(0, min(c.Size, smallChunk))+bytes.MinRead)) // room to see the end in
	_, err = raw.ReadFrom(body)
	return raw.Bytes(), err
}

// load adds the rows of a chunk to the sorter, unless the chunk proves to be
// absorbed. body and err are what a first request gave, if one was made.
func (r *reader) load(s *block.Sorter, j job, body []byte, err error) error {
	for {
		// A record read for a chunk before this one may know this one too.
		if j.b.head.Record.Deleted || j.b.head.Record.Absorbed(j.chunk) {
			j.b.rounds = 0
			return nil
		}
		if err == nil {
			err = r.add(s, j, body)
		}
		if err == nil {
			j.b.rounds = 0
			return nil
		}
		key := j.chunk.Key()
		err = fmt.Errorf("read chunk %s: %w", key, err)
		if !gone(err) {
			return err
		}
		if err := j.b.again(key+"@"+j.chunk.ETag, err); err != nil {
			return err
		}
		// It was absorbed: the record says so now. The list stays as it is,
		// older than any record that is read.
		if j.b.head, err = catalog.ReadHead(r.ctx, r.store, j.b.id); err != nil {
			return err
		}
		j.b.bury()
		body, err = nil, nil
	}
}

// bury lets the loads of absorbed chunks die.
func (b *batch) bury() {
	kept := b.loads[:0]
	for _, l := range b.loads {
		if l.dead = b.head.Record.Deleted || b.head.Record.Absorbed(l.chunk); !l.dead {
			kept = append(kept, l)
		}
	}
	b.loads = kept
}

// add reads a chunk into the sorter. When it breaks off, what it added is dead.
func (r *reader) add(s *block.Sorter, j job, body []byte) error {
	var in io.Reader = bytes.NewReader(body)
	if body == nil && j.chunk.Size > 0 {
		rc, _, err := r.store.Get(r.ctx, j.chunk.Key(), objstore.Span{ETag: j.chunk.ETag})
		if err != nil {
			return err
		}
		defer rc.Close()
		in = rc
	}
	l := &load{chunk: j.chunk, number: uint32(len(r.loads)), dead: true}
	r.loads = append(r.loads, l)
	key, payload := []byte(nil), []byte(nil)
	for row, err := range chunkRows(in, j.chunk, r.o.Rejected) {
		if err != nil {
			return err
		}
		if (Cursor{row.ID, j.chunk.Batch.Batch}).Compare(r.last) <= 0 {
			continue
		}
		key = appendLiveKey(key[:0], row, j.chunk)
		payload = append(binary.BigEndian.AppendUint32(payload[:0], l.number), row.Raw...)
		if err := s.Add(key, payload); err != nil {
			return fmt.Errorf("sort live rows: %w", err)
		}
	}
	l.dead = false
	j.b.loads = append(j.b.loads, l)
	return nil
}

// live is the source of live rows: those of all batches, sorted by id, batch
// and the order in which a merge would decide.
type live struct {
	r      *reader
	sorter *block.Sorter
	rows   block.Stream[block.Record]
	place  place
}

func (l *live) at() *place { return &l.place }

func (l *live) close() { l.sorter.Close() }

func (l *live) advance() error {
	rec, err := l.rows.Next()
	if err == io.EOF {
		return io.EOF
	}
	if err != nil {
		return fmt.Errorf("sort live rows: %w", err)
	}
	id, rest, err := block.CutID(rec.Key)
	if err != nil {
		return fmt.Errorf("sort live rows: %w", err)
	}
	batch, order, err := block.CutID(rest)
	if err != nil {
		return fmt.Errorf("sort live rows: %w", err)
	}
	l.place = place{
		Cursor: Cursor{id, batch},
		ready:  true,
		row:    dataset.Row{ID: id, CreatedAt: cutTime(order), Raw: rec.Payload[4:]},
		load:   l.r.loads[binary.BigEndian.Uint32(rec.Payload)],
		order:  order,
	}
	return nil
}

// appendLiveKey is what live rows are sorted by: id and batch, and then, so
// that the first row of an id is the one a merge would keep, _created_at
// (missing last), chunk name and line. Lines of a chunk come in their order.
func appendLiveKey(dst []byte, row dataset.Row, c catalog.Chunk) []byte {
	dst = block.AppendID(dst, row.ID)
	dst = block.AppendID(dst, c.Batch.Batch)
	dst = appendTime(dst, row.CreatedAt)
	return append(dst, c.Name()...)
}

const timeBytes = 13

func appendTime(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(dst, bytes.Repeat([]byte{0xFF}, timeBytes)...)
	}
	dst = append(dst, 0)
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.Unix())^1<<63) // so that years before 1970 come first
	return binary.BigEndian.AppendUint32(dst, uint32(t.Nanosecond()))
}

func cutTime(b []byte) time.Time {
	if len(b) < timeBytes || b[0] != 0 {
		return time.Time{}
	}
	return time.Unix(int64(binary.BigEndian.Uint64(b[1:])^1<<63), int64(binary.BigEndian.Uint32(b[9:]))).UTC()
}
