package merger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/dataset"
)

// suspects finds the new rows that share an id or a digest with another row,
// new or merged. All others stay, whatever becomes of these, so the rule is
// applied to the suspects alone: nearly always they are few.
//
// A row is known by its number in the order of row keys, which each pass over
// the keys gives again.
type suspects struct {
	dir     string
	budget  int64
	columns []string
	rows    *block.Sorter // their keys

	is      bits
	n       int64  // suspects
	sure    *spool // digests of all others, in order
	ids     *spool // encoded ids of merged rows that new ones have too, in order
	digests *spool // the same of digests
}

func newSuspects(dir string, budget int64, columns []string, rows *block.Sorter) *suspects {
	return &suspects{
		dir: dir, budget: budget, columns: columns, rows: rows, is: newBits(rows.Len()),
		sure: newSpool(dir), ids: newSpool(dir), digests: newSpool(dir),
	}
}

func (s *suspects) close() {
	s.sure.close()
	s.ids.close()
	s.digests.close()
}

// find finds them. ids (encoded, in order) and digests are those of merged
// rows.
func (s *suspects) find(ids block.Stream[[]byte], digests taken) error {
	byDigest := block.NewSorter(s.dir, s.budget)
	defer byDigest.Close()
	if err := s.byID(ids, byDigest); err != nil {
		return err
	}
	if err := s.byDigest(byDigest, digests); err != nil {
		return err
	}
	for _, out := range []*spool{s.sure, s.ids, s.digests} {
		if err := out.rewind(); err != nil {
			return err
		}
	}
	return nil
}

func (s *suspects) add(number uint64) {
	if !s.is.get(number) {
		s.is.set(number)
		s.n++
	}
}

// byID goes over the ids, and hands the digests on with the rows' numbers.
func (s *suspects) byID(ids block.Stream[[]byte], byDigest *block.Sorter) error {
	takenAt := seeker{stream: ids}
	var id, key []byte
	isTaken := false
	err := s.each(func(number uint64, row []byte, d dataset.Digest) (err error) {
		same := number > 0 && bytes.Equal(idOfRow(row), id)
		if !same {
			id = append(id[:0], idOfRow(row)...)
			if isTaken, err = takenAt.has(id); err != nil {
				return err
			}
			if isTaken {
				if err := s.ids.add(id, nil); err != nil {
					return err
				}
			}
		}
		if same {
			s.add(number - 1)
		}
		if same || isTaken {
			s.add(number)
		}
		key = binary.BigEndian.AppendUint64(append(key[:0], d[:]...), number)
		if err := byDigest.Add(key, nil); err != nil {
			return fmt.Errorf("sort digests: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return takenAt.drain()
}

// byDigest goes over the digests.
func (s *suspects) byDigest(sorted *block.Sorter, merged taken) error {
	keys, err := sorted.Keys()
	if err != nil {
		return fmt.Errorf("sort digests: %w", err)
	}
	var digest dataset.Digest
	var first uint64 // number of the first row with that digest
	rows, isTaken := 0, false
	end := func() error {
		if rows != 1 || s.is.get(first) {
			return nil
		}
		return s.sure.add(digest[:], nil)
	}
	for {
		key, err := keys.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("sort digests: %w", err)
		}
		number := binary.BigEndian.Uint64(key[digestLen:])
		if rows > 0 && bytes.Equal(key[:digestLen], digest[:]) {
			rows++
			s.add(first)
			s.add(number)
			continue
		}
		if err := end(); err != nil {
			return err
		}
		digest, first, rows = dataset.Digest(key[:digestLen]), number, 1
		if isTaken, err = merged.has(digest[:]); err != nil {
			return err
		}
		if isTaken {
			s.add(number)
			if err := s.digests.add(digest[:], nil); err != nil {
				return err
			}
		}
	}
	if err := end(); err != nil {
		return err
	}
	return merged.drain()
}

// rank hands the suspects on to be decided.
func (s *suspects) rank(ranks *block.Sorter) error {
	var key []byte
	return s.each(func(number uint64, row []byte, d dataset.Digest) error {
		if !s.is.get(number) {
			return nil
		}
		key = rankKeyOf(key[:0], row)
		if err := ranks.Add(key, d[:]); err != nil {
			return fmt.Errorf("sort rows: %w", err)
		}
		return nil
	})
}

// each gives the key of every row, and its digest.
func (s *suspects) each(fn func(number uint64, row []byte, d dataset.Digest) error) error {
	return eachKey(s.rows, s.columns, fn)
}

func eachKey(rows *block.Sorter, columns []string, fn func(number uint64, row []byte, d dataset.Digest) error) error {
	keys, err := rows.Keys()
	if err != nil {
		return fmt.Errorf("sort rows: %w", err)
	}
	for number := uint64(0); ; number++ {
		key, err := keys.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("sort rows: %w", err)
		}
		row, d, _, err := cutSuffix(key, columns)
		if err == nil {
			err = fn(number, row, d)
		}
		if err != nil {
			return err
		}
	}
}

// spooledIDs and spooledDigests give the keys of a spool.
type spooledIDs struct{ in *spool }

func (s spooledIDs) Next() ([]byte, error) {
	rec, err := s.in.Next()
	return rec.Key, err
}

type spooledDigests struct{ in *spool }

func (s spooledDigests) Next() (d dataset.Digest, err error) {
	rec, err := s.in.Next()
	copy(d[:], rec.Key)
	return d, err
}
