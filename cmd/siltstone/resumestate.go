package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/query"
)

// resumeState is what an export knows of itself at the end of a stretch: enough
// to go on there in another process.
type resumeState struct {
	Version int           `json:"version"`
	Request exportRequest `json:"request"`
	Pins    query.Pins    `json:"pins"` // what is read, whatever is merged meanwhile
	LeftOut LeftOut       `json:"left_out"`

	Rows   int64         `json:"rows"`
	Raw    int64         `json:"raw"`    // bytes before compression
	Bytes  int64         `json:"bytes"`  // of the partial file that count
	SHA256 string        `json:"sha256"` // of them
	After  *query.Cursor `json:"after,omitempty"`

	// Unknown and Missing are columns that no row has had so far.
	Unknown []string `json:"unknown,omitempty"`
	Missing []string `json:"missing,omitempty"`

	// Done is set when the partial file is whole, and is to get its name.
	Done *exportManifest `json:"done,omitempty"`
}

// exportRequest is what an export was asked for, as far as its bytes depend on it.
type exportRequest struct {
	Dataset    string          `json:"dataset"`
	Batches    []string        `json:"batches"`
	Columns    []string        `json:"columns"`
	Annotators []string        `json:"annotators"`
	Where      json.RawMessage `json:"where"`
	Sort       []query.SortBy  `json:"sort"`
	At         string          `json:"at"`
	Limit      *int64          `json:"limit"`
	Format     string          `json:"format"`
	Zipped     bool            `json:"zipped"`
}

const resumeVersion = 1

// errResume reports a state from which nothing can go on.
var errResume = errors.New("the export cannot go on where it was")

func (s resumeState) encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(s)
	return b.Bytes(), err
}

// decodeResume reads a state, and refuses one that this build cannot have
// written.
func decodeResume(raw []byte) (s resumeState, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var version struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(raw, &version); err != nil {
		return s, err
	}
	if version.Version != resumeVersion {
		return s, fmt.Errorf("it has version %d, this build knows %d", version.Version, resumeVersion)
	}
	if err := d.Decode(&s); err != nil {
		return s, err
	}
	if _, err := d.Token(); err != io.EOF {
		return s, errors.New("something follows it")
	}
	return s, s.check()
}

func (s resumeState) check() error {
	switch {
	case dataset.CheckDataset(s.Request.Dataset) != nil:
		return errors.New("it names no dataset")
	case s.Rows < 0 || s.Raw < 0 || s.Bytes < 0:
		return errors.New("a negative count")
	case len(s.SHA256) != 64 || strings.Trim(s.SHA256, "0123456789abcdef") != "":
		return errors.New("no SHA-256")
	case s.Rows > 0 && len(s.Request.Sort) == 0 && s.After == nil && s.Done == nil:
		return errors.New("rows without a place to go on after")
	case s.Rows == 0 && s.After != nil:
		return errors.New("a place to go on after, and no rows")
	case s.Request.Limit != nil && (*s.Request.Limit < 0 || s.Rows > *s.Request.Limit):
		return errors.New("more rows than its limit")
	case s.Done != nil && (s.Done.Bytes != s.Bytes || s.Done.SHA256 != s.SHA256 || s.Done.Rows != s.Rows):
		return errors.New("its manifest says otherwise")
	}
	return nil
}

// differs names what another request asks otherwise, by flags; nil: nothing.
func (r exportRequest) differs(o exportRequest) []string {
	flags := map[string]string{"Dataset": "the dataset", "Batches": "--batch", "Zipped": "the suffix .gz"}
	var out []string
	a, b := reflect.ValueOf(r), reflect.ValueOf(o)
	for i := range a.NumField() {
		x, errx := json.Marshal(a.Field(i).Interface())
		y, erry := json.Marshal(b.Field(i).Interface())
		if errx == nil && erry == nil && bytes.Equal(x, y) {
			continue
		}
		name := a.Type().Field(i).Name
		if flag, ok := flags[name]; ok {
			out = append(out, flag)
		} else {
			out = append(out, "--"+strings.ToLower(name))
		}
	}
	return out
}

// request is what the flags ask for.
func (e *exporting) request() (exportRequest, error) {
	r := exportRequest{
		Dataset: e.Dataset, Batches: e.Batch, Columns: e.Columns, Annotators: e.Annotators,
		Sort: e.opts.Sort, At: e.At, Limit: e.Limit, Format: e.format(), Zipped: e.zipped(),
	}
	if e.opts.Where == nil {
		return r, nil
	}
	var err error
	r.Where, err = e.opts.Where.MarshalJSON()
	return r, err
}
