package merger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/dataset"
)

// Why a row does not stay.
const (
	dropDigest byte = iota // a row that stays has its digest
	dropID                 // a row that stays has its id, and none its digest
)

// verdict says which of the ranked rows stay.
type verdict struct {
	drops   *block.Sorter // by row key: why
	digests *block.Sorter // of the rows that stay, as keys
	sure    *spool        // those of rows that stay and were not ranked, in order; may be nil
	kept    int64
}

func (v *verdict) close() {
	_ = v.drops.Close()
	_ = v.digests.Close()
	if v.sure != nil {
		v.sure.close()
	}
}

// sortedDigests gives the digests of all rows that stay.
func (v *verdict) sortedDigests() (block.Stream[dataset.Digest], error) {
	recs, err := v.digests.Sort()
	if err != nil {
		return nil, fmt.Errorf("sort digests: %w", err)
	}
	if v.sure == nil {
		return sortedDigests{recs}, nil
	}
	return block.Merge(compareDigests, block.Stream[dataset.Digest](sortedDigests{recs}), spooledDigests{v.sure}), nil
}

// decideNew decides which of the new rows stay. ids (encoded, in order) and
// digests are those of merged rows, which stay anyhow.
func decideNew(dir string, memory int64, columns []string, rows *block.Sorter, ids block.Stream[[]byte], digests taken) (*verdict, error) {
	share := func(n int64) int64 { return max(memory/n, 1) }
	s := newSuspects(dir, share(8), columns, rows)
	defer s.close()
	if err := s.find(ids, digests); err != nil {
		return nil, err
	}
	ranks := block.NewSorter(dir, share(10))
	defer ranks.Close()
	if err := s.rank(ranks); err != nil {
		return nil, err
	}
	sorted, err := ranks.Sort()
	if err != nil {
		return nil, fmt.Errorf("sort rows: %w", err)
	}
	v, err := decide(dir, share(20), sorted, s.n, spooledIDs{s.ids}, spooledDigests{s.digests})
	if err != nil {
		return nil, err
	}
	v.kept += rows.Len() - s.n
	v.sure, s.sure = s.sure, newSpool(dir)
	return v, nil
}

// decide applies the one rule of deduplication: a row stays if and only if no
// row that stays, of those ranked before it, has its id or its digest. ids
// (encoded, in order) and digests are those of rows that stay anyhow.
//
// A table of what was seen would not be bounded by memory, so each row tells
// its verdict to the next one with its id and the next one with its digest:
// two sorts find out who these are, and one sweep in rank order with a bit for
// each carries it on. Only rows that share an id or a digest with another cost
// more than the sorts.
func decide(dir string, budget int64, ranks block.Stream[block.Record], n int64, ids block.Stream[[]byte], digests block.Stream[dataset.Digest]) (*verdict, error) {
	order := newSpool(dir)
	defer order.close()
	byID, byDigest := block.NewSorter(dir, budget), block.NewSorter(dir, budget)
	defer byID.Close()
	defer byDigest.Close()
	if err := rank(ranks, order, byID, byDigest); err != nil {
		return nil, err
	}
	links := block.NewSorter(dir, budget)
	defer links.Close()
	if err := link(byID, linkID, ids, links); err != nil {
		return nil, err
	}
	if err := link(byDigest, linkDigest, &digestBytes{in: digests}, links); err != nil {
		return nil, err
	}
	v := &verdict{drops: block.NewSorter(dir, budget), digests: block.NewSorter(dir, budget)}
	if err := v.sweep(order, n, links); err != nil {
		v.close()
		return nil, err
	}
	return v, nil
}

// rank numbers the rows in their order: that number is their rank.
func rank(ranks block.Stream[block.Record], order *spool, byID, byDigest *block.Sorter) error {
	var key []byte
	for number := uint64(0); ; number++ {
		rec, err := ranks.Next()
		if err == io.EOF {
			return order.rewind()
		}
		if err != nil {
			return fmt.Errorf("sort rows: %w", err)
		}
		if err := order.add(rec.Key, rec.Payload); err != nil {
			return err
		}
		key = binary.BigEndian.AppendUint64(append(key[:0], idOfRank(rec.Key)...), number)
		if err := byID.Add(key, nil); err != nil {
			return fmt.Errorf("sort ids: %w", err)
		}
		key = binary.BigEndian.AppendUint64(append(key[:0], rec.Payload...), number)
		if err := byDigest.Add(key, nil); err != nil {
			return fmt.Errorf("sort digests: %w", err)
		}
	}
}

// Kinds of links, and what they say: either the rank of the next row with the
// same id or digest, or that a row which stays anyhow has it.
const (
	linkID byte = iota
	linkDigest
)

const rankLen = 8

// link finds the rows that share a value, and writes links by rank.
func link(values *block.Sorter, kind byte, taken block.Stream[[]byte], links *block.Sorter) error {
	recs, err := values.Sort()
	if err != nil {
		return fmt.Errorf("sort values: %w", err)
	}
	takenAt := seeker{stream: taken}
	var value, from []byte // of the row before
	var isTaken bool
	add := func(rank, to []byte) error {
		if err := links.Add(append(bytes.Clone(rank), kind), to); err != nil {
			return fmt.Errorf("sort links: %w", err)
		}
		return nil
	}
	for first := true; ; first = false {
		rec, err := recs.Next()
		if err == io.EOF {
			return takenAt.drain()
		}
		if err != nil {
			return fmt.Errorf("sort values: %w", err)
		}
		v, to := rec.Key[:len(rec.Key)-rankLen], rec.Key[len(rec.Key)-rankLen:]
		switch {
		case first || !bytes.Equal(v, value):
			value = append(value[:0], v...)
			if isTaken, err = takenAt.has(value); err != nil {
				return err
			}
		case !isTaken:
			if err := add(from, to); err != nil {
				return err
			}
		}
		if isTaken {
			if err := add(to, nil); err != nil {
				return err
			}
		}
		from = append(from[:0], to...)
	}
}

// seeker looks values up in an ordered stream, in order.
type seeker struct {
	stream block.Stream[[]byte]
	value  []byte
	valid  bool
	err    error
}

func (s *seeker) has(v []byte) (bool, error) {
	for s.err == nil && (!s.valid || bytes.Compare(s.value, v) < 0) {
		s.advance()
	}
	if s.err != nil && s.err != io.EOF {
		return false, s.err
	}
	return s.err == nil && bytes.Equal(s.value, v), nil
}

func (s *seeker) advance() {
	v, err := s.stream.Next()
	s.value, s.valid, s.err = append(s.value[:0], v...), true, err
}

// drain reads to the end, where a stored file tells whether it was whole.
func (s *seeker) drain() error {
	for s.err == nil {
		s.advance()
	}
	if s.err != io.EOF {
		return s.err
	}
	return nil
}

// digestBytes gives digests as bytes.
type digestBytes struct {
	in  block.Stream[dataset.Digest]
	buf dataset.Digest
}

func (d *digestBytes) Next() (v []byte, err error) {
	d.buf, err = d.in.Next()
	return d.buf[:], err
}

var errRanks = errors.New("internal error: sorted rows do not fit together")

// sweep goes over the rows in rank order.
func (v *verdict) sweep(order *spool, n int64, links *block.Sorter) error {
	sorted, err := links.Sort()
	if err != nil {
		return fmt.Errorf("sort links: %w", err)
	}
	next, err := newCursor(sorted)
	if err != nil {
		return err
	}
	taken := [2]bits{newBits(n), newBits(n)}
	var key []byte
	for rank := uint64(0); ; rank++ {
		rec, err := order.Next()
		if err == io.EOF {
			if rank != uint64(n) || next.ok {
				return errRanks
			}
			return nil
		}
		if err != nil {
			return err
		}
		if rank >= uint64(n) {
			return errRanks
		}
		var has [2]bool
		var successor [2]uint64 // plus one
		for kind := range has {
			has[kind] = taken[kind].get(rank)
		}
		for next.ok && binary.BigEndian.Uint64(next.rec.Key) == rank {
			kind := next.rec.Key[rankLen]
			if len(next.rec.Payload) == 0 {
				has[kind] = true
			} else {
				successor[kind] = binary.BigEndian.Uint64(next.rec.Payload) + 1
			}
			if err := next.advance(); err != nil {
				return fmt.Errorf("sort links: %w", err)
			}
		}
		stays := !has[linkID] && !has[linkDigest]
		for kind, s := range successor {
			if s > 0 && (stays || has[kind]) {
				taken[kind].set(s - 1)
			}
		}
		if stays {
			v.kept++
			if err := v.digests.Add(rec.Payload, nil); err != nil {
				return fmt.Errorf("sort digests: %w", err)
			}
			continue
		}
		why := dropID
		if has[linkDigest] {
			why = dropDigest
		}
		key = rowKeyOf(key[:0], rec.Key)
		if err := v.drops.Add(key, []byte{why}); err != nil {
			return fmt.Errorf("sort drops: %w", err)
		}
	}
}

// cursor is a stream of records with its present value.
type cursor struct {
	stream block.Stream[block.Record]
	rec    block.Record
	ok     bool
}

func newCursor(s block.Stream[block.Record]) (*cursor, error) {
	c := &cursor{stream: s}
	return c, c.advance()
}

func (c *cursor) advance() error {
	rec, err := c.stream.Next()
	c.rec, c.ok = rec, err == nil
	if err == io.EOF {
		return nil
	}
	return err
}

// bits is a set of ranks: one bit for each row.
type bits []uint64

func newBits(n int64) bits       { return make(bits, (n+63)/64) }
func (b bits) get(i uint64) bool { return b[i/64]&(1<<(i%64)) != 0 }
func (b bits) set(i uint64)      { b[i/64] |= 1 << (i % 64) }
