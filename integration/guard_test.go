package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// guard is a store that looks at every write to a batch: a promise of the
// format may be broken long before a reader can tell. The first breach is kept.
type guard struct {
	objstore.Store
	batch dataset.BatchID

	mu      sync.Mutex
	record  catalog.Record             // the present one
	records map[int64][]byte           // the bytes of all, by generation
	commits map[string]bool            // their commit ids
	named   map[string]string          // SHA-256 by path, of every file that a record ever named
	lines   map[string][]catalog.Chunk // the chunks that have, or had, a line
	old     map[string][]string        // the lines of each older chunk of a layer that is there
	bodies  map[string][]byte          // of every block that a record ever named
	past    []generation               // all of them, in order
	saw     map[string]int             // what happened
	broken  error

	// What a saboteur has done. Promises that rest on it do not hold from then on.
	torn   []byte          // what lies in the record's place; nil once there is a record again
	losses int             // of records
	harmed map[string]bool // files that are not what the records say
}

// generation is a record that was committed.
type generation struct {
	number int64
	at     time.Time
}

var errBroken = errors.New("a promise is broken")

func newGuard(s objstore.Store, b dataset.BatchID) *guard {
	return &guard{
		Store: s, batch: b, old: map[string][]string{}, bodies: map[string][]byte{}, harmed: map[string]bool{}, saw: map[string]int{}, records: map[int64][]byte{}, commits: map[string]bool{}, named: map[string]string{}, lines: map[string][]catalog.Chunk{},
	}
}

// inherit says that another tool's manifest lies in the record's place.
func (g *guard) inherit(manifest []byte) { g.records[0] = manifest }

func (g *guard) present() catalog.Record {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.record
}

// recordOf gives an earlier record; one of another tool names nothing.
func (g *guard) recordOf(generation int64) (r catalog.Record, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.parse(generation)
}

func (g *guard) parse(generation int64) (r catalog.Record, err error) {
	if raw := g.records[generation]; generation > 0 {
		err = json.Unmarshal(raw, &r)
	}
	return r, err
}

func (g *guard) breach() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.broken
}

// absorbed counts the chunks of each line that lies in chunks which the record
// has absorbed, and in no other.
func (g *guard) absorbed() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := map[string]int{}
	for line, chunks := range g.lines {
		if !slices.ContainsFunc(chunks, func(c catalog.Chunk) bool { return !g.record.Absorbed(c) }) {
			out[line] = len(chunks)
		}
	}
	return out
}

// chunks counts the chunks that have, or had, a line.
func (g *guard) chunks(line string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.lines[line])
}

// happened notes that something happened.
func (g *guard) happened(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.saw[what]++
}

// note keeps the first of the breaches that a write made.
func (g *guard) note(key string, format string, args ...any) {
	if g.broken == nil {
		g.broken = fmt.Errorf("%w: %s: %s", errBroken, key, fmt.Sprintf(format, args...))
	}
}

// Put looks at a write once it has taken effect.
func (g *guard) Put(ctx context.Context, key string, body []byte, c objstore.Condition) (objstore.Info, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before, err := g.look(ctx, key)
	if err != nil {
		return objstore.Info{}, err
	}
	info, err := g.Store.Put(ctx, key, body, c)
	if err == nil {
		g.wrote(ctx, key, before, body, info.ETag)
	}
	return info, err
}

// Upload is a Put.
func (g *guard) Upload(ctx context.Context, key string, r io.ReadSeeker, size int64, c objstore.Condition) (objstore.Info, error) {
	body, err := objstore.ReadExactly(r, size)
	if err != nil {
		return objstore.Info{}, err
	}
	return g.Put(ctx, key, body, c)
}

// Delete looks at what is there just before.
func (g *guard) Delete(ctx context.Context, key string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r, info, err := g.Store.Get(ctx, key, objstore.Span{}); err == nil {
		_ = r.Close()
		g.deletes(ctx, key, info)
	}
	return g.Store.Delete(ctx, key)
}

// look gives what lies under a key, or nil.
func (g *guard) look(ctx context.Context, key string) ([]byte, error) {
	body, _, err := objstore.ReadAll(ctx, g.Store, key)
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, nil
	}
	return body, err
}
