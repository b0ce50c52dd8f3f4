package merger

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/objstore"
)

// putRejected stores the rejected lines of a source. What another attempt
// has stored there stays: it may be the one that commits, and a chunk whose row
// it refused for its id is deleted then. So the file only ever grows, by
// compare-and-swap.
func putRejected(ctx context.Context, s objstore.Store, dir, key string, file *scratch) error {
	ours, err := file.reader()
	if err != nil {
		return fmt.Errorf("store %s: %w", key, err)
	}
	var putErr error
	for range maxTaken {
		_, putErr = s.Upload(ctx, key, ours, file.size, objstore.IfAbsent())
		if putErr == nil {
			return nil
		}
		if !undecided(putErr) || ctx.Err() != nil {
			break
		}
		done, err := growRejected(ctx, s, dir, key, ours)
		if done || err != nil && !undecided(err) {
			return err
		}
		if _, err := ours.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("store %s: %w", key, err)
		}
	}
	return fmt.Errorf("store %s: %w", key, putErr)
}

// undecided tells whether a conditional write can be tried again after another
// look.
func undecided(err error) bool {
	return errors.Is(err, objstore.ErrLost) || errors.Is(err, objstore.ErrUnknown) || errors.Is(err, objstore.ErrNotFound)
}

// growRejected adds lines to a stored file; done means that it has them all.
func growRejected(ctx context.Context, s objstore.Store, dir, key string, ours io.ReadSeeker) (done bool, err error) {
	theirs, info, err := s.Get(ctx, key, objstore.Span{})
	if err != nil {
		return false, fmt.Errorf("read %s: %w", key, err)
	}
	defer theirs.Close()
	if _, err := ours.Seek(0, io.SeekStart); err != nil {
		return false, fmt.Errorf("store %s: %w", key, err)
	}
	sorter := block.NewSorter(dir, 1<<20)
	defer sorter.Close()
	had, err := sortRejected(sorter, theirs, 0)
	if err != nil {
		return false, fmt.Errorf("read %s: %w", key, err)
	}
	if _, err := sortRejected(sorter, ours, 1); err != nil {
		return false, fmt.Errorf("store %s: %w", key, err)
	}
	all := newScratch(dir)
	defer all.close()
	kept, err := uniqueLines(all, sorter)
	if err != nil {
		return false, fmt.Errorf("store %s: %w", key, err)
	}
	if kept == had {
		return true, nil
	}
	out, err := all.reader()
	if err != nil {
		return false, fmt.Errorf("store %s: %w", key, err)
	}
	if _, err := s.Upload(ctx, key, out, all.size, objstore.IfMatch(info.ETag)); err != nil {
		return false, fmt.Errorf("store %s: %w", key, err)
	}
	return true, nil
}

// sortRejected adds the lines of a file to a sorter, by line number and bytes.
func sortRejected(sorter *block.Sorter, r io.Reader, from byte) (lines int64, err error) {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if line = bytes.TrimRight(line, "\r\n"); len(line) > 0 {
			var n struct {
				Line uint64 `json:"line"`
			}
			_ = json.Unmarshal(line, &n) // a line of somebody else comes first, and stays
			sum := sha256.Sum256(line)
			key := append(binary.BigEndian.AppendUint64(nil, n.Line), sum[:]...)
			if err := sorter.Add(append(key, from), line); err != nil {
				return lines, err
			}
			lines++
		}
		if err == io.EOF {
			return lines, nil
		}
		if err != nil {
			return lines, err
		}
	}
}

// uniqueLines writes sorted lines, each once.
func uniqueLines(w io.Writer, sorter *block.Sorter) (lines int64, err error) {
	recs, err := sorter.Sort()
	if err != nil {
		return 0, err
	}
	var last []byte
	for {
		rec, err := recs.Next()
		if err == io.EOF {
			return lines, nil
		}
		if err != nil {
			return 0, err
		}
		key := rec.Key[:len(rec.Key)-1]
		if lines > 0 && bytes.Equal(key, last) {
			continue
		}
		last = append(last[:0], key...)
		for _, part := range [][]byte{rec.Payload, {'\n'}} {
			if _, err := w.Write(part); err != nil {
				return 0, err
			}
		}
		lines++
	}
}
