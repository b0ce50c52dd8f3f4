package producers

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/dataset"
)

// Stdin is the name of standard input among files.
const Stdin = "-"

// InputConfig says how to open an input; the zero value is usable for files.
type InputConfig struct {
	Format  Format
	Stdin   io.Reader     // what the name Stdin stands for
	TempDir string        // for parquet that comes as a stream; os.TempDir() when empty
	Read    func(n int64) // told of every n bytes that are read of the file
}

// Input is an open file of rows, or a stream of them.
type Input struct {
	name   string
	format Format
	cancel context.CancelFunc
	close  []func() error // in the order of opening

	text    io.Reader   // NDJSON and CSV
	columns io.ReaderAt // parquet
	size    int64       // of columns
}

// Line is a row as it stands in an input, or the reason why something there is
// none. Raw is valid until the next one is asked for.
type Line struct {
	Number int    // line, record or row, from 1
	Raw    []byte // one JSON object, unless Reject is set
	Reject string
	unit   string // what Number counts, when that is not lines

	scanned *dataset.Scanner // has just read Raw, where it is not nil
}

// StatInput looks whether an input can be a file of rows, and gives its size,
// -1 where that is not known.
func StatInput(name string) (int64, error) {
	if name == Stdin {
		return -1, nil
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return 0, err
	case info.IsDir():
		return 0, fmt.Errorf("%s is a directory: name the files in it", name)
	case !info.Mode().IsRegular():
		return -1, nil
	}
	return info.Size(), nil
}

// OpenInput opens a file, or standard input for the name Stdin. gzip and zstd
// are decompressed, and the format is told by the content before the name.
// Reading ends with ctx. The caller closes the input.
func OpenInput(ctx context.Context, name string, cfg InputConfig) (*Input, error) {
	size, err := StatInput(name)
	if err != nil {
		return nil, err
	}
	if cfg.Read == nil {
		cfg.Read = func(int64) {}
	}
	ctx, cancel := context.WithCancel(ctx)
	in := &Input{name: name, cancel: cancel}
	if name == Stdin {
		in.name = "stdin"
	}
	if err := in.open(ctx, name, size, cfg); err != nil {
		_ = in.Close() // the error that matters is the first
		return nil, fmt.Errorf("%s: %w", in.name, err)
	}
	return in, nil
}

func (in *Input) open(ctx context.Context, name string, size int64, cfg InputConfig) error {
	m := &meter{ctx: ctx, r: cfg.Stdin, read: cfg.Read}
	if name != Stdin {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		in.close = append(in.close, f.Close)
		m.r, m.at = f, f
	} else if m.r == nil {
		return errors.New("there is no standard input")
	}
	regular := size >= 0
	if !regular {
		m.r = newPump(ctx, m.r)
	}
	raw := bufio.NewReaderSize(m, 64<<10)
	rawHead, _ := raw.Peek(len(parquetMagic)) // errors come again from the next read
	plain, err := block.Open(raw)
	if err != nil {
		return err
	}
	in.close = append(in.close, plain.Close)
	text := bufio.NewReaderSize(plain, 64<<10)
	// As much as the first read gives: a stream may bring a few rows now and the
	// next ones much later.
	if _, err := text.Peek(len(parquetMagic)); err != nil && err != io.EOF {
		return err
	}
	head, _ := text.Peek(min(text.Buffered(), sniffBytes))
	if in.format, err = sniff(head, cfg.Format, name); err != nil {
		return err
	}
	switch {
	case in.format != Parquet:
		in.text = text
	case regular && string(rawHead) == parquetMagic:
		in.columns, in.size = m, size
	default:
		return in.spool(text, cfg.TempDir)
	}
	return nil
}

// spool keeps a stream in a file without a name, because parquet is read from
// its end.
func (in *Input) spool(r io.Reader, dir string) error {
	if dir == "" {
		dir = os.TempDir()
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("resolve temporary folder: %w", err)
	}
	f, err := os.CreateTemp(dir, "siltstone-input-*.parquet")
	if err != nil {
		return fmt.Errorf("keep the stream in a file: %w", err)
	}
	_ = os.Remove(f.Name()) // now already, so that a killed process leaves nothing
	in.close = append(in.close, f.Close)
	in.columns = f
	if in.size, err = io.Copy(f, r); err != nil {
		return fmt.Errorf("keep the stream in a file: %w", err)
	}
	return nil
}

// Close closes the file, and leaves standard input open.
func (in *Input) Close() error {
	in.cancel()
	var errs []error
	for i := len(in.close) - 1; i >= 0; i-- {
		errs = append(errs, in.close[i]())
	}
	in.close = nil
	return errors.Join(errs...)
}

// Format is what the input turned out to be.
func (in *Input) Format() Format { return in.format }

// Where says where a line of the input stands: FILE:LINE.
func (in *Input) Where(l Line) string {
	if l.unit != "" {
		return fmt.Sprintf("%s: %s %d", in.name, l.unit, l.Number)
	}
	return fmt.Sprintf("%s:%d", in.name, l.Number)
}

// Lines gives the rows of the input and what there is no row. An error is the
// last: the rest cannot be read.
func (in *Input) Lines() iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		switch in.format {
		case CSV:
			in.records("record", block.CSVLines(in.text), yield)
		case Parquet:
			in.records("row", block.ParquetLines(in.columns, in.size), yield)
		default:
			in.lines(yield)
		}
	}
}

func (in *Input) lines(yield func(Line, error) bool) {
	scanner := dataset.NewScanner(nil)
	lines := block.NewLines(in.text).ScanWith(scanner)
	last := 0
	for {
		l, err := lines.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			yield(Line{}, fmt.Errorf("%s: after line %d: %w", in.name, last, err))
			return
		}
		last = l.Number
		if l.Reject != "" {
			l.Reject += wayOut(l.Raw)
		}
		line := Line{Number: l.Number, Raw: l.Raw, Reject: l.Reject}
		if l.Reject == "" {
			line.scanned = scanner
		}
		if !yield(line, nil) {
			return
		}
	}
}

// records passes on rows that were something else than lines of JSON.
func (in *Input) records(unit string, rows iter.Seq2[[]byte, error], yield func(Line, error) bool) {
	n := 0
	for raw, err := range rows {
		n++
		line := Line{Number: n, Raw: raw, unit: unit}
		var bad *block.LineError
		if errors.As(err, &bad) {
			line = Line{Number: bad.Line, Reject: bad.Reason}
			if in.format == Parquet {
				line.unit = unit
			}
			err = nil
		}
		switch {
		case err != nil && (n == 1 || in.format == Parquet): // it names the place itself
			yield(Line{}, fmt.Errorf("%s: %w", in.name, err))
			return
		case err != nil:
			yield(Line{}, fmt.Errorf("%s: after %s %d: %w", in.name, unit, n-1, err))
			return
		}
		if !yield(line, nil) {
			return
		}
	}
}

// wayOut says what to do about JSON that is not one object per line.
func wayOut(line []byte) string {
	switch line = bytes.TrimSpace(line); {
	case bytes.HasPrefix(line, []byte("[")):
		return "; `jq -c '.[]'` makes lines of an array"
	case len(line) == 1 && line[0] == '{':
		return "; `jq -c .` puts each object on a line"
	}
	return ""
}
