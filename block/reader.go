package block

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/siltstone-data/siltstone/dataset"
)

// ErrDamaged reports bytes that are not what the commit record says, or not
// what a block can be. An error of the underlying reader is not damage.
var ErrDamaged = errors.New("block is damaged")

// Want is what the commit record says about a block.
type Want struct {
	Rows, Bytes int64
	SHA256      string
}

// Reader reads the rows of a block in order. The rows it has given are only
// known to be all and right when Next has returned io.EOF: until then nothing
// that rests on them may be made final.
type Reader struct {
	src  *source
	m    *members
	s    lineScanner
	a    *ahead // nil: nothing is decompressed ahead
	p    *piece // the rows of it that are left
	left []dataset.Row
	used int64 // compressed bytes of the pieces before p
	want *Want
	rows int64
	last string
	err  error
}

// NewReader reads a block. Without want it checks only what gzip and JSON
// check, as for a block of an older tool, which may be in any order.
func NewReader(r io.Reader, want *Want) *Reader {
	src := &source{r: r}
	if want != nil {
		src.sum = sha256.New()
	}
	m := newMembers(src)
	return &Reader{src: src, m: m, s: lineScanner{r: m}, want: want}
}

// NewAheadReader is a Reader that decompresses with n goroutines, ahead of the
// rows that it gives. They end with Close, which waits for a read of r that is
// under way.
func NewAheadReader(r io.Reader, want *Want, n int) *Reader {
	src := &source{r: r, sum: sha256.New()}
	return &Reader{src: src, a: newAhead(src, n), want: want}
}

// Close ends what reads ahead. It does not close the underlying reader.
func (r *Reader) Close() {
	if r.a != nil {
		r.a.close()
		r.a = nil
	}
	if r.err == nil {
		r.err = errClosed
	}
}

// Next gives the next row, which is valid until the next call. It returns
// io.EOF only after rows, bytes, SHA-256 and order have proved right.
func (r *Reader) Next() (dataset.Row, error) {
	if r.err != nil {
		return dataset.Row{}, r.err
	}
	row, err := r.next()
	if err != nil {
		r.err = err
		return dataset.Row{}, err
	}
	return row, nil
}

func (r *Reader) next() (dataset.Row, error) {
	for r.m == nil {
		if len(r.left) > 0 {
			row := r.left[0]
			r.left = r.left[1:]
			r.s.number++
			return r.check(row)
		}
		r.turn()
	}
	for {
		line, long, err := r.s.next()
		switch {
		case err == io.EOF:
			return dataset.Row{}, r.finish()
		case err != nil:
			return dataset.Row{}, r.broken(err)
		case long:
			return dataset.Row{}, r.damaged("a line longer than %d MiB", dataset.MaxLineBytes>>20)
		case r.want == nil && isBlank(line):
			continue
		}
		row, err := dataset.ParseRow(line)
		if err != nil {
			return dataset.Row{}, r.damaged("%v", err)
		}
		return r.check(row)
	}
}

// turn goes on to the next piece. From one that is not plain on, the rest is read
// as a Reader reads that has nothing ahead.
func (r *Reader) turn() {
	if r.p != nil {
		r.used += int64(len(r.p.zip))
		r.a.give(r.p)
	}
	r.p = r.a.next()
	if r.p != nil && !r.p.odd {
		r.left = r.p.rows
		return
	}
	var rest io.Reader = &restOf{a: r.a}
	if r.p != nil {
		rest = r.a.rest(r.p)
	}
	r.m = newMembers(&source{r: rest, n: r.used})
	r.m.count = int(min(r.used, 1)) // after a member the end may come, or zeros
	r.s.r = r.m
}

// check compares a row with those before it.
func (r *Reader) check(row dataset.Row) (dataset.Row, error) {
	if r.want != nil {
		switch {
		case row.ID == "":
			return dataset.Row{}, r.damaged("a row without an id")
		case r.rows > 0 && row.ID <= r.last:
			return dataset.Row{}, r.damaged("%v: %q after %q", ErrOrder, row.ID, r.last)
		case r.rows >= r.want.Rows:
			return dataset.Row{}, r.damaged("more rows than the %d of the commit record", r.want.Rows)
		}
		r.last = row.ID
	}
	r.rows++
	return row, nil
}

// broken tells damage from an error of the underlying reader.
func (r *Reader) broken(err error) error {
	if r.m.src.err != nil {
		return fmt.Errorf("read block: %w", r.m.src.err)
	}
	return fmt.Errorf("%w: %w (after %d rows, at compressed byte %d)", ErrDamaged, err, r.rows, r.m.offset())
}

func (r *Reader) damaged(format string, args ...any) error {
	return fmt.Errorf("%w: line %d: %s", ErrDamaged, r.s.number, fmt.Sprintf(format, args...))
}

// finish compares the whole with the commit record.
func (r *Reader) finish() error {
	if r.want == nil {
		return io.EOF
	}
	var differs []string
	if r.rows != r.want.Rows {
		differs = append(differs, fmt.Sprintf("it has %d rows, the commit record says %d", r.rows, r.want.Rows))
	}
	if n := r.src.n; n != r.want.Bytes {
		differs = append(differs, fmt.Sprintf("it has %d bytes, the commit record says %d", n, r.want.Bytes))
	}
	if sum := hex.EncodeToString(r.src.sum.Sum(nil)); sum != r.want.SHA256 {
		differs = append(differs, fmt.Sprintf("its SHA-256 is %s, the commit record says %s", sum, r.want.SHA256))
	}
	if differs != nil {
		return fmt.Errorf("%w: %s", ErrDamaged, strings.Join(differs, "; "))
	}
	return io.EOF
}

// ReadFrame gives the rows of one frame, or of several that follow each other.
func ReadFrame(compressed []byte) ([]dataset.Row, error) {
	m := newMembers(&source{r: bytes.NewReader(compressed)})
	var raw bytes.Buffer
	if _, err := raw.ReadFrom(m); err != nil {
		return nil, fmt.Errorf("%w: frame: %w", ErrDamaged, err)
	}
	var rows []dataset.Row
	rest := bytes.TrimPrefix(raw.Bytes(), byteOrderMark)
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		if isBlank(line) {
			continue
		}
		row, err := dataset.ParseRow(line)
		if err != nil {
			return nil, fmt.Errorf("%w: frame: row %d: %w", ErrDamaged, len(rows)+1, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}
