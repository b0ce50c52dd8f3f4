package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/gzip"
)

// floor compresses the bytes of all chunks as they are, into one member: no
// merge with this compressor and level can cost less.
func floor(dir, out string) error {
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	zip, err := gzip.NewWriterLevel(f, 1)
	if err != nil {
		return err
	}
	chunks, err := chunkFiles(dir)
	if err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	for _, path := range chunks {
		in, err := os.Open(path)
		if err != nil {
			return err
		}
		_, err = io.CopyBuffer(struct{ io.Writer }{zip}, struct{ io.Reader }{in}, buf)
		if err := errors.Join(err, in.Close()); err != nil {
			return err
		}
	}
	return errors.Join(zip.Close(), f.Close())
}

func chunkFiles(dir string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, theDataset, theBatchName, "*_chunk_*.jsonl"))
	slices.Sort(paths)
	return paths, err
}
