package index

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// Sizes lists the blocks of a batch that have an index: by number, the bytes of
// the index.
func Sizes(ctx context.Context, s objstore.Store, b dataset.BatchID) (map[int]int64, error) {
	have := make(map[int]int64)
	dir := b.IndexKey(0)
	dir = dir[:strings.LastIndexByte(dir, '/')+1]
	for info, err := range s.List(ctx, dir, "") {
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", dir, err)
		}
		if k := dataset.ParseKey(info.Key); k.Kind == dataset.KindIndex && k.Batch == b && b.IndexKey(k.Number) == info.Key {
			have[k.Number] = info.Size
		}
	}
	return have, nil
}

// Numbers lists the numbers of the blocks of a batch that have an index.
func Numbers(ctx context.Context, s objstore.Store, b dataset.BatchID) (map[int]bool, error) {
	sizes, err := Sizes(ctx, s, b)
	if err != nil {
		return nil, err
	}
	have := make(map[int]bool, len(sizes))
	for n := range sizes {
		have[n] = true
	}
	return have, nil
}

// Has reports whether the numbers that Numbers gave have that block's.
func Has(have map[int]bool, b dataset.BatchID, bl catalog.Block) bool {
	n, ok := number(b, bl)
	return ok && have[n]
}

// Stale gives the numbers, in order, of indexes that the record needs no more:
// those of blocks that it names nowhere, or replaced before `old`. Only numbers
// below next_file are among them: a later record than this one may name the
// others.
func Stale(r catalog.Record, have map[int]bool, old time.Time) []int {
	b := r.ID()
	needed := make(map[int]bool)
	for _, bl := range r.Blocks {
		if n, ok := number(b, bl); ok && !r.Deleted {
			needed[n] = true
		}
	}
	for _, g := range r.Garbage {
		if n, ok := number(b, catalog.Block{File: g.File}); ok && !g.Since.Before(old) {
			needed[n] = true
		}
	}
	var out []int
	for n := range have {
		if n < r.NextFile && !needed[n] {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// Prune deletes the stale indexes of a record. A reader that misses an index
// reads the block whole, so nothing depends on the age.
func Prune(ctx context.Context, s objstore.Store, r catalog.Record, have map[int]bool, old time.Time) (int, error) {
	b := r.ID()
	gone := 0
	for _, n := range Stale(r, have, old) {
		if err := s.Delete(ctx, b.IndexKey(n)); err != nil {
			return gone, fmt.Errorf("delete index %s: %w", b.IndexKey(n), err)
		}
		delete(have, n)
		gone++
	}
	return gone, nil
}
