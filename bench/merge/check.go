package main

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/gzip"
)

// result is what the blocks of a merge hold. All that take part must give the
// same: otherwise their figures say nothing about each other.
type result struct {
	rows       int64
	ids, lines string // sums, in order
}

// readResult reads the blocks in a folder, in the order of their first ids.
func readResult(dir string) (result, error) {
	type file struct{ path, first string }
	var files []file
	paths, err := filepath.Glob(filepath.Join(dir, "merged_*.jsonl.gz"))
	if err != nil {
		return result{}, err
	}
	for _, p := range paths {
		f := file{path: p}
		err := eachLine(p, func(line []byte) error {
			f.first = idOf(line)
			return io.EOF
		})
		if err != nil && err != io.EOF {
			return result{}, err
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.first, b.first) })
	var r result
	ids, lines := sha256.New(), sha256.New()
	last := ""
	for _, f := range files {
		err := eachLine(f.path, func(line []byte) error {
			id := idOf(line)
			if id == "" || id <= last {
				return fmt.Errorf("%s: id %q comes after %q", f.path, id, last)
			}
			last = id
			r.rows++
			fmt.Fprintln(ids, id)
			lines.Write(line)
			return nil
		})
		if err != nil {
			return result{}, err
		}
	}
	r.ids, r.lines = hex.EncodeToString(ids.Sum(nil)), hex.EncodeToString(lines.Sum(nil))
	return r, nil
}

// idOf is the id of a line, which stands first in it.
func idOf(line []byte) string {
	in := json.NewDecoder(bytes.NewReader(line))
	for range 2 {
		if _, err := in.Token(); err != nil {
			return ""
		}
	}
	id, _ := in.Token()
	s, _ := id.(string)
	return s
}

func eachLine(path string, fn func(line []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	in := bufio.NewReaderSize(zip, 1<<20)
	for {
		line, err := in.ReadSlice('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, errors.Join(err, errLine))
		}
		if err := fn(line); err != nil {
			return err
		}
	}
}

var errLine = errors.New("a line that is longer than all of the corpus, or cut")
