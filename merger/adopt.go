package merger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// adoption is what lies in a batch that has no commit record yet: the merged
// files there hold its rows, in whatever order and with or without ids. The
// first commit writes them anew.
//
// Where there is no manifest.yaml at all, files with numbers may also be blocks
// of a first merge that never committed. Their rows come last of all: what is
// still live, or in merged.parquet, decides as if they were not there, and only
// rows that are nowhere else are added. So it does not matter which they are.
//
// Where a record is lost and an earlier one can be read, only those are adopted
// that the earlier one names, and those numbered from its next_file on, by the
// rule that no later record names any other: replaced files would bring rows back
// that were dropped since. Rows of the former are decided first, as they were.
type adoption struct {
	files []source // parquet ones first
	paths []string // within the batch
	next  int      // past every number seen

	known catalog.Record // the newest of a lost record's that can be read; of generation 0 for none
	gone  []string       // files that known names and that are not there
}

func findAdoption(ctx context.Context, s objstore.Store, h catalog.Head, known catalog.Record) (adoption, error) {
	b := h.Record.ID()
	found, err := listNumbered(ctx, s, b)
	if err != nil {
		return adoption{}, err
	}
	a := adoption{next: h.Record.NextFile}
	named := map[string]catalog.Block{}
	if h.Lost && known.Generation > 0 {
		a.known = known
		for _, bl := range known.Blocks {
			named[bl.File] = bl
		}
	}
	there := map[string]bool{}
	for _, f := range found {
		a.next = max(a.next, f.Number+1)
		there[f.path()] = true
		bl, isNamed := named[f.File]
		switch {
		case f.Kind == dataset.KindDigest || h.Record.Deleted:
			continue
		case a.known.Generation > 0 && !isNamed && (f.Kind == dataset.KindLegacy || f.Number < known.NextFile):
			continue
		}
		src := mergedSource(f)
		switch {
		case isNamed:
			src.want = &bl
		case a.known.Generation > 0:
			src.class = classUnnamed
		case h.Bare() && !h.Lost && f.Kind == dataset.KindBlock:
			src.class = classLeft
		}
		a.files = append(a.files, src)
		a.paths = append(a.paths, f.path())
	}
	for _, bl := range a.known.Blocks {
		if !there[bl.File] {
			a.gone = append(a.gone, bl.File)
		}
	}
	if h.Lost && len(a.files) == 0 && !h.Record.Deleted {
		return adoption{}, fmt.Errorf("%s: %w: it is lost, and so are the merged files: none lies there to adopt; put them back, or put any other text in its place (such as the word lost) to begin anew with the live chunks",
			b.CommitKey(), catalog.ErrDamaged)
	}
	slices.SortStableFunc(a.files, func(x, y source) int {
		switch {
		case x.isParquet() == y.isParquet():
			return 0
		case x.isParquet():
			return -1
		}
		return 1
	})
	return a, nil
}

// parquet is how many of the files, the first ones, are parquet.
func (a adoption) parquet() int {
	n := 0
	for n < len(a.files) && a.files[n].isParquet() {
		n++
	}
	return n
}

// size is that of the files together.
func (a adoption) size() int64 {
	n := int64(0)
	for _, f := range a.files {
		n += f.size
	}
	return n
}

// garbage is what the adopting commit says of the files.
func (a adoption) garbage(since time.Time) []catalog.Garbage {
	var out []catalog.Garbage
	for _, path := range a.paths {
		out = append(out, catalog.Garbage{File: path, Since: since.UTC()})
	}
	for _, d := range a.known.Digests {
		out = append(out, catalog.GarbageDigest(d, since))
	}
	return out
}

// proveKnown makes sure that the files which a record in history names are what it
// says, before their rows are taken.
func (a adoption) proveKnown(ctx context.Context, s objstore.Store) error {
	for _, src := range a.files {
		if src.want == nil {
			continue
		}
		body, info, err := s.Get(ctx, src.key, src.span())
		if errors.Is(err, objstore.ErrNotFound) || errors.Is(err, objstore.ErrChanged) {
			return again("read %s: %w", src.key, err)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", src.key, err)
		}
		sum := sha256.New()
		_, err = io.Copy(sum, body)
		_ = body.Close()
		if err != nil {
			return fmt.Errorf("read %s: %w", src.key, err)
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != src.want.SHA256 || info.Size != src.want.Bytes {
			return &unadoptable{src.key, fmt.Errorf("it has %d bytes with SHA-256 %s, and generation %d says %d with %s",
				info.Size, got, a.known.Generation, src.want.Bytes, src.want.SHA256)}
		}
	}
	return nil
}

// unadoptable says that a merged file of another tool is damaged. Nobody else
// has its rows, so a batch with such a file stays as it is.
type unadoptable struct {
	key string
	err error
}

func (u *unadoptable) Error() string {
	return fmt.Sprintf("%s: %v: put the file back as it was, or take it out of the batch to go on without its rows", u.key, u.err)
}

// Unwrap gives what is wrong, as damage.
func (u *unadoptable) Unwrap() []error { return []error{block.ErrDamaged, u.err} }

// adoptLines gives the lines of a merged file that is no parquet to fn.
func adoptLines(s source, body io.Reader, fn func(block.Line) error) error {
	from := &remembering{r: body}
	in, err := block.Open(from)
	if err == nil {
		defer in.Close()
		told := error(nil)
		err = eachLine(s, in, func(l block.Line) error {
			told = fn(l)
			return told
		})
		if told != nil {
			return told
		}
	}
	switch {
	case err == nil:
		return nil
	case from.err != nil:
		return fmt.Errorf("read %s: %w", s.key, from.err)
	}
	return &unadoptable{s.key, err}
}

// adoptParquet gives the rows of a parquet file of any schema to fn, and how far
// it is to progress. It reads the version that was listed, a row group at a time.
func adoptParquet(ctx context.Context, store objstore.Store, dir string, s source, fn func(block.Line) error, progress func(done, total int64)) error {
	f := &remoteFile{ctx: ctx, store: store, source: s, dir: dir}
	defer f.close()
	in, err := block.OpenParquetFile(f, s.size)
	if err != nil {
		return f.damage(err)
	}
	defer in.Close()
	for n := int64(0); ; n++ {
		if n%1000 == 0 {
			if progress(n, in.Rows()); ctx.Err() != nil {
				return ctx.Err()
			}
		}
		raw, err := in.Next()
		if err == io.EOF {
			if n != in.Rows() {
				return f.damage(fmt.Errorf("it has %d rows, and its footer says %d", n, in.Rows()))
			}
			progress(n, n)
			return nil
		}
		line := block.Line{Number: int(n) + 1, Raw: raw}
		var bad *block.LineError
		switch {
		case errors.As(err, &bad):
			line.Reject = bad.Reason
		case err != nil:
			return f.damage(err)
		default:
			if line.Row, err = dataset.ParseRow(raw); err != nil {
				line.Reject = err.Error()
			}
		}
		if err := fn(line); err != nil {
			return err
		}
	}
}

// eachLine gives the lines of a source.
func eachLine(s source, in io.Reader, fn func(block.Line) error) error {
	return allLines(s, block.NewLines(in), fn)
}

func allLines(s source, lines *block.Lines, fn func(block.Line) error) error {
	for {
		l, err := lines.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", s.key, err)
		}
		if err := fn(l); err != nil {
			return err
		}
	}
}

// remembering keeps the error of a reader, to tell a body that cannot be had
// from one that is damaged.
type remembering struct {
	r   io.Reader
	err error
}

func (m *remembering) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	if err != nil && err != io.EOF {
		m.err = err
	}
	return n, err
}

// isParquet reports whether the source is a parquet file.
func (s source) isParquet() bool { return strings.HasSuffix(s.name, ".parquet") }
