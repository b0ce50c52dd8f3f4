package block

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/siltstone-data/siltstone/dataset"
)

// LineError says that one record of a file cannot become a row. Those after it
// can: the sequence goes on.
type LineError struct {
	Line   int // where the record starts, from 1
	Reason string
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// CSVLines gives the records of a CSV file (RFC 4180) as JSON objects, one line
// each, valid until the next. The first record names the columns. All values
// are strings, but a _created_at that is an integer, and an empty one, which is
// left out. A *LineError stands for one record; any other error is the last.
func CSVLines(r io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		c := &csvFile{s: lineScanner{r: r}}
		if err := c.header(); err != nil {
			if err != io.EOF {
				yield(nil, err)
			}
			return
		}
		for {
			line, err := c.next()
			if err == io.EOF {
				return
			}
			var bad *LineError
			if !yield(line, err) || err != nil && !errors.As(err, &bad) {
				return
			}
		}
	}
}

// csvFile cuts a file into records itself and gives encoding/csv one at a
// time. So a quote that is never closed costs one record and no memory, a bad
// record cannot disturb the next, and line breaks in a field stay as they are.
type csvFile struct {
	s     lineScanner
	names [][]byte // as JSON, with the comma or brace before and the colon after
	time  int      // column of _created_at, or -1
	id    int      // column of id, or -1

	record []byte
	start  int // its first line
	csv    *csv.Reader
	unread []byte
	out    []byte
}

// Read gives encoding/csv what is left of the present record.
func (c *csvFile) Read(p []byte) (int, error) {
	if len(c.unread) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

func (c *csvFile) header() error {
	fields, err := c.fields()
	var bad *LineError
	if errors.As(err, &bad) {
		return fmt.Errorf("header: %s", bad) // no LineError: without a header nothing goes on
	}
	if err != nil {
		return err
	}
	if len(fields) == 1 && strings.ContainsAny(fields[0], ";\t") {
		// Taken for one column, the whole file would be stored as nonsense.
		return &HeaderError{Column: 1, Reason: fmt.Sprintf("the name is %q: the columns seem to stand between semicolons or tabs, and only commas are read", fields[0])}
	}
	c.time, c.id = -1, -1
	columns := map[string]int{}
	for i, name := range fields {
		switch first, twice := columns[name]; {
		case name == "":
			return &HeaderError{Column: i + 1, Reason: "it has no name"}
		case strings.Contains(strings.ReplaceAll(name, "\r\n", ""), "\r"):
			// Where all lines end so, all records would be taken for the header.
			return &HeaderError{Column: i + 1, Reason: `it has a carriage return; make lines end with \n first (tr '\r' '\n')`}
		case twice:
			return &HeaderError{Column: i + 1, Reason: fmt.Sprintf("the name %q stands in column %d too", name, first)}
		case !utf8.ValidString(name):
			return &HeaderError{Column: i + 1, Reason: fmt.Sprintf("the name %q is not valid UTF-8", name)}
		case name == dataset.CreatedAtColumn:
			c.time = i
		case name == dataset.IDColumn:
			c.id = i
		}
		columns[name] = i + 1
		quoted, err := jsontext.AppendQuote(nil, name)
		if err != nil {
			return fmt.Errorf("csv header: %w", err)
		}
		c.names = append(c.names, append(quoted, ':'))
	}
	return nil
}

// HeaderError says which column of a header cannot name a column of rows.
type HeaderError struct {
	Column int // from 1
	Reason string
}

func (e *HeaderError) Error() string { return fmt.Sprintf("header: column %d: %s", e.Column, e.Reason) }

func (c *csvFile) next() ([]byte, error) {
	fields, err := c.fields()
	if err != nil {
		return nil, err
	}
	if len(fields) != len(c.names) {
		return nil, &LineError{c.start, fmt.Sprintf("%d fields, the header has %d", len(fields), len(c.names))}
	}
	c.out = append(c.out[:0], '{')
	for i, f := range fields {
		if i == c.time && f == "" {
			continue
		}
		if i == c.id && f == "" {
			return nil, &LineError{c.start, "the id is empty; give every record one, or leave the whole column out and all get one"}
		}
		if len(c.out) > 1 {
			c.out = append(c.out, ',')
		}
		c.out = append(c.out, c.names[i]...)
		if i == c.time && isInteger(f) {
			c.out = append(c.out, f...)
			continue
		}
		if c.out, err = jsontext.AppendQuote(c.out, f); err != nil {
			return nil, &LineError{c.start, fmt.Sprintf("column %d is not valid UTF-8", i+1)}
		}
	}
	c.out = append(c.out, '}')
	return c.out, nil
}

// isInteger reports whether s is an integer as JSON writes it.
func isInteger(s string) bool {
	s = strings.TrimPrefix(s, "-")
	return s != "" && strings.Trim(s, "0123456789") == "" && (s[0] != '0' || s == "0")
}

// fields reads and takes apart one record.
func (c *csvFile) fields() ([]string, error) {
	if err := c.cut(); err != nil {
		return nil, err
	}
	if c.csv == nil {
		c.csv = csv.NewReader(c)
		c.csv.FieldsPerRecord = -1
		c.csv.ReuseRecord = true
	}
	c.unread = c.record
	before := c.csv.InputOffset()
	fields, err := c.csv.Read()
	if err == nil && c.csv.InputOffset()-before != int64(len(c.record)) {
		err = csv.ErrQuote
	}
	if err == nil {
		return fields, nil
	}
	c.csv = nil // it may hold a part of this record
	var pe *csv.ParseError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return nil, &LineError{c.start, err.Error()}
}

// cut reads lines until all quotes are closed.
func (c *csvFile) cut() error {
	c.record = c.record[:0]
	state := fieldStart
	for {
		line, long, err := c.s.next()
		switch {
		case err == io.EOF && len(c.record) > 0:
			return &LineError{c.start, "a quote is never closed"}
		case err != nil:
			return err
		}
		if len(c.record) == 0 {
			if len(line) == 0 && !long {
				continue
			}
			c.start = c.s.number
		}
		if long || len(c.record)+len(line) > dataset.MaxLineBytes {
			return fmt.Errorf("line %d: a record longer than %d MiB; is a quote never closed?", c.start, dataset.MaxLineBytes>>20)
		}
		c.record = append(c.record, line...)
		switch state = state.after(line); {
		case state == misquoted:
			return &LineError{c.start, "a quote in the middle of a field; a field with quotes stands in quotes, and those in it are doubled"}
		case state != quoted:
			c.record = append(c.record, '\n')
			return nil
		}
		// encoding/csv makes \r\n in a field \n, unless there is one \r more.
		if c.s.hadCR {
			c.record = append(c.record, "\r\r"...)
		}
		c.record = append(c.record, '\n')
	}
}

// csvState is where in a record a line ends.
type csvState int

const (
	fieldStart csvState = iota
	plain               // in a field without quotes
	quoted              // in a field with quotes
	closing             // after a quote in such a field: its end, or the first of two
	misquoted
)

// after is the state at the end of a line. A quote out of place is seen at
// once, so that it does not take the records that follow with it.
func (s csvState) after(line []byte) csvState {
	for len(line) > 0 {
		c := line[0]
		line = line[1:]
		switch {
		case s == quoted && c != '"':
			if i := bytes.IndexByte(line, '"'); i >= 0 {
				line = line[i:]
			} else {
				line = nil
			}
		case s == quoted:
			s = closing
		case c == '"' && (s == closing || s == fieldStart):
			s = quoted
		case c == ',':
			s = fieldStart
		case c == '"' || s == closing:
			return misquoted
		default:
			s = plain
		}
	}
	return s
}
