package merger

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

const digestLen = int64(len(dataset.Digest{}))

// hasDigests tells whether the record has the digests of all its rows on
// exactly these columns.
func hasDigests(r catalog.Record, columns []string) bool {
	var rows int64
	for _, d := range r.Digests {
		if !slices.Equal(d.Columns, columns) {
			return false
		}
		rows += d.Rows
	}
	return rows == r.Rows
}

// digestReader reads a stored digest file and checks it against the record.
type digestReader struct {
	key  string
	want catalog.DigestFile
	body io.ReadCloser
	in   *bufio.Reader
	sum  hash.Hash
	last dataset.Digest
	rows int64
}

func openDigests(ctx context.Context, s objstore.Store, b dataset.BatchID, d catalog.DigestFile) (*digestReader, error) {
	key := b.DigestKey(d.File)
	body, _, err := s.Get(ctx, key, objstore.Span{})
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, &faultyFile{key: key, err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("read digests %s: %w", key, err)
	}
	r := &digestReader{key: key, want: d, body: body, sum: sha256.New()}
	r.in = bufio.NewReaderSize(io.TeeReader(body, r.sum), 64<<10)
	return r, nil
}

// Next gives the next digest. It returns io.EOF only after number, order and
// SHA-256 have proved right.
func (r *digestReader) Next() (dataset.Digest, error) {
	var d dataset.Digest
	n, err := io.ReadFull(r.in, d[:])
	switch {
	case err == io.EOF:
		return d, r.finish()
	case err == io.ErrUnexpectedEOF && n > 0 && r.atEnd():
		return d, r.damaged("%d bytes too many", n)
	case err != nil:
		return d, fmt.Errorf("read digests %s: %w", r.key, err)
	case r.rows > 0 && bytes.Compare(d[:], r.last[:]) <= 0:
		return d, r.damaged("digest %d does not come after the one before", r.rows+1)
	}
	r.rows++
	r.last = d
	return d, nil
}

// atEnd tells a file whose length is wrong from a body that was cut.
func (r *digestReader) atEnd() bool {
	_, err := r.in.ReadByte()
	return err == io.EOF
}

func (r *digestReader) finish() error {
	if r.rows != r.want.Rows || r.rows*digestLen != r.want.Bytes {
		return r.damaged("it has %d digests, the commit record says %d in %d bytes", r.rows, r.want.Rows, r.want.Bytes)
	}
	if sum := hex.EncodeToString(r.sum.Sum(nil)); sum != r.want.SHA256 {
		return r.damaged("its SHA-256 is %s, the commit record says %s", sum, r.want.SHA256)
	}
	return io.EOF
}

func (r *digestReader) damaged(format string, args ...any) error {
	return &faultyFile{key: r.key, err: fmt.Errorf("%w: digest file: %s", block.ErrDamaged, fmt.Sprintf(format, args...))}
}

func (r *digestReader) close() { _ = r.body.Close() }

// digestFiles reads all digest files of a record as one stream.
type digestFiles struct {
	block.Stream[dataset.Digest]
	open []*digestReader
}

func openAllDigests(ctx context.Context, s objstore.Store, r catalog.Record) (*digestFiles, error) {
	all := &digestFiles{}
	var streams []block.Stream[dataset.Digest]
	for _, d := range r.Digests {
		in, err := openDigests(ctx, s, r.ID(), d)
		if err != nil {
			all.close()
			return nil, err
		}
		all.open = append(all.open, in)
		streams = append(streams, in)
	}
	all.Stream = block.Merge(compareDigests, streams...)
	return all, nil
}

func (a *digestFiles) close() {
	for _, r := range a.open {
		r.close()
	}
}

func compareDigests(a, b dataset.Digest) int { return bytes.Compare(a[:], b[:]) }

// sortedDigests gives the keys of a sorter as digests.
type sortedDigests struct{ recs block.Stream[block.Record] }

func (s sortedDigests) Next() (dataset.Digest, error) {
	rec, err := s.recs.Next()
	if err != nil {
		return dataset.Digest{}, err
	}
	return dataset.Digest(rec.Key), nil
}

// noDigests is the stream of a batch whose rows are all decided again.
type noDigests struct{}

func (noDigests) Next() (dataset.Digest, error) { return dataset.Digest{}, io.EOF }
