package query

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/cache"
)

const (
	// maxTable is the most ids that the table of one chunk holds. A chunk with
	// more, of a foreign writer, is read through each time it is asked.
	maxTable = 1 << 20
	// chunkWindow is how much of a large chunk is fetched at a time to get at
	// its rows.
	chunkWindow = 256 << 10
)

// chunkKey is a chunk's content.
type chunkKey struct{ key, etag string }

func keyOf(c catalog.Chunk) chunkKey { return chunkKey{c.Key(), c.ETag} }

// chunkTable is where the rows of a live chunk are, by id: of rows with one id
// the one that a merge would keep.
type chunkTable struct {
	entries []liveEntry
	rows    int64 // lines that are rows
	large   bool  // more than maxTable of them: there are no entries
}

// liveEntry is where a live row is.
type liveEntry struct {
	id      string
	created time.Time
	chunk   *catalog.Chunk
	at      int64 // the line's first byte in the chunk
	size    int32 // bytes of the line
	line    int32 // its number, from 1
}

// decides compares live rows of one id in the order in which a merge would take
// them: by _created_at, missing last, chunk name, line.
func (e liveEntry) decides(o liveEntry) int {
	if none := e.created.IsZero(); none != o.created.IsZero() {
		if none {
			return 1
		}
		return -1
	}
	return cmp.Or(e.created.Compare(o.created), strings.Compare(e.chunk.Name(), o.chunk.Name()), cmp.Compare(e.line, o.line))
}

// nearest sorts entries by id, up or down, keeps the one that decides of each
// id, and of these the first n.
func nearest(entries []liveEntry, down bool, n int) []liveEntry {
	slices.SortFunc(entries, func(a, b liveEntry) int {
		d := strings.Compare(a.id, b.id)
		if down {
			d = -d
		}
		if d == 0 {
			d = a.decides(b)
		}
		return d
	})
	entries = slices.CompactFunc(entries, func(a, b liveEntry) bool { return a.id == b.id })
	if len(entries) > n {
		clear(entries[n:])
		entries = entries[:n]
	}
	return entries
}

// chunkTable gives the table of a live chunk.
func (q *ask) chunkTable(ctx context.Context, c catalog.Chunk) (*chunkTable, error) {
	return q.e.chunks.Get(ctx, keyOf(c), func() (*chunkTable, int64, error) {
		t := &chunkTable{}
		size := int64(200)
		err := q.scanChunk(ctx, c, func(e liveEntry) {
			if t.rows++; t.rows > q.e.maxTable {
				t.large, t.entries = true, nil
				return
			}
			t.entries = append(t.entries, e)
			size += int64(80 + len(e.id))
		})
		if err != nil {
			return nil, 0, err
		}
		if t.large {
			size = 200
		}
		t.entries = slices.Clip(nearest(t.entries, false, len(t.entries)))
		return t, size, nil
	})
}

// scanChunk reads a chunk and gives where its rows are.
func (q *ask) scanChunk(ctx context.Context, c catalog.Chunk, found func(liveEntry)) error {
	var in io.Reader
	if c.Size <= smallChunk {
		body, err := q.chunkBody(ctx, c)
		if err != nil {
			return err
		}
		in = bytes.NewReader(body)
	} else {
		body, _, err := q.store.Get(ctx, c.Key(), objstore.Span{ETag: c.ETag})
		if err != nil {
			return err
		}
		defer body.Close()
		in = body
	}
	key := c.Key()
	lines := block.NewLines(in)
	for {
		l, err := lines.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if row, reject := rowOf(key, l, c.Batch.Annotator != ""); reject == "" {
			found(liveEntry{id: row.ID, created: row.CreatedAt, chunk: &c, at: l.Offset, size: int32(len(l.Raw)), line: int32(l.Number)})
		}
	}
}

// chunkBody gives all of a small chunk.
func (q *ask) chunkBody(ctx context.Context, c catalog.Chunk) ([]byte, error) {
	return q.e.bodies.Get(ctx, keyOf(c), func() ([]byte, int64, error) {
		body, err := fetch(ctx, q.store, c)
		return body, int64(len(body)) + 200, err
	})
}

// nearChunk gives the rows of a chunk that a walk comes to first from a spot, at
// most n.
func (q *ask) nearChunk(ctx context.Context, v *view, c catalog.Chunk, from spot, down bool, n int) ([]liveEntry, int64, error) {
	t, err := q.chunkTable(ctx, c)
	if err != nil {
		return nil, 0, err
	}
	beyond := func(e liveEntry) bool { return from.beyond(Cursor{e.id, v.id.Batch}, down) }
	if !t.large {
		if down {
			i := sort.Search(len(t.entries), func(i int) bool { return !beyond(t.entries[i]) })
			near := slices.Clone(t.entries[max(0, i-n):i])
			slices.Reverse(near)
			return near, t.rows, nil
		}
		i := sort.Search(len(t.entries), func(i int) bool { return beyond(t.entries[i]) })
		return t.entries[i:min(len(t.entries), i+n)], t.rows, nil
	}
	var near []liveEntry
	err = q.scanChunk(ctx, c, func(e liveEntry) {
		if !beyond(e) {
			return
		}
		if near = append(near, e); len(near) > 4*n+1000 {
			near = nearest(near, down, n)
		}
	})
	return nearest(near, down, n), t.rows, err
}

// liveRow reads the row that an entry stands for.
func (q *ask) liveRow(ctx context.Context, e liveEntry) (dataset.Row, error) {
	var raw []byte
	if e.chunk.Size <= smallChunk {
		body, err := q.chunkBody(ctx, *e.chunk)
		if err != nil {
			return dataset.Row{}, err
		}
		raw = body[min(e.at, int64(len(body))):]
	} else {
		var err error
		// A few bytes more: a byte order mark and a line end are not counted.
		if raw, err = q.chunkPart(ctx, *e.chunk, e.at, min(e.at+int64(e.size)+5, e.chunk.Size)); err != nil {
			return dataset.Row{}, err
		}
	}
	l, err := block.NewLines(io.LimitReader(bytes.NewReader(raw), int64(e.size)+5)).Next()
	if err != nil && err != io.EOF {
		return dataset.Row{}, err
	}
	l.Number = int(e.line)
	row, reject := rowOf(e.chunk.Key(), l, e.chunk.Batch.Annotator != "")
	if err == io.EOF || reject != "" || row.ID != e.id {
		return dataset.Row{}, fmt.Errorf("%w: line %d is not what it was (%s)", ErrDamaged, e.line, reject)
	}
	return row, nil
}

// chunkPart gives the bytes of a large chunk from one offset to another, from
// whole windows, which stay on disk.
func (q *ask) chunkPart(ctx context.Context, c catalog.Chunk, from, to int64) ([]byte, error) {
	var out []byte
	for at := from / chunkWindow * chunkWindow; at < to; at += chunkWindow {
		n := min(chunkWindow, c.Size-at)
		raw, err := q.e.kept(ctx, cache.Key{Object: c.Key(), Version: c.ETag, Part: cache.Range(at, n)}, func() ([]byte, error) {
			body, _, err := q.store.Get(ctx, c.Key(), objstore.Span{Offset: at, Length: n, ETag: c.ETag})
			if err != nil {
				return nil, err
			}
			defer body.Close()
			raw := make([]byte, n)
			_, err = io.ReadFull(body, raw)
			return raw, err
		})
		if err != nil {
			return nil, err
		}
		out = append(out, raw[max(0, from-at):min(n, to-at)]...)
	}
	return out, nil
}
