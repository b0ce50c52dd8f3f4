package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/siltstone-data/siltstone/query"
)

// What lies beside an exported file, under its name with these suffixes.
const (
	manifestSuffix = ".manifest.json"
	sumSuffix      = ".sha256" // a line for `sha256sum -c`
)

// exportManifest says what an exported file holds and where it comes from.
type exportManifest struct {
	Version     int                `json:"version"`
	File        string             `json:"file"` // its name, without a folder
	Format      string             `json:"format"`
	Compression string             `json:"compression,omitempty"`
	Bytes       int64              `json:"bytes"`
	SHA256      string             `json:"sha256"`
	Rows        int64              `json:"rows"`
	Columns     []query.FileColumn `json:"columns"` // null: each row has its own
	Dataset     string             `json:"dataset"`
	query.Pins
	// Moved are the states under which the rest of a batch was read, because its
	// blocks were replaced meanwhile; a key is the batch, or A/batch in a layer.
	Moved      map[string][]query.Pin `json:"moved,omitempty"`
	At         string                 `json:"at,omitempty"`
	Annotators []string               `json:"annotators,omitempty"`
	Where      json.RawMessage        `json:"where,omitempty"`
	Sort       []query.SortBy         `json:"sort,omitempty"`
	Limit      *int64                 `json:"limit,omitempty"`
	Live       bool                   `json:"live"`
	LeftOut    LeftOut                `json:"left_out"`
	WrittenAt  time.Time              `json:"written_at"`
}

const exportManifestVersion = 1

// companions is an output that other small files can lie beside.
type companions interface {
	beside(suffix string, body []byte) error
	without(suffix string) error // removes one that an earlier export has left
}

// put writes the manifest, which says that all is there, last.
func (m exportManifest) put(dst companions) error {
	body, err := m.encode()
	if err != nil {
		return err
	}
	if err := dst.beside(sumSuffix, m.sumLine()); err != nil {
		return fmt.Errorf("write checksum of %s: %w", m.File, err)
	}
	if err := dst.beside(manifestSuffix, body); err != nil {
		return fmt.Errorf("write manifest of %s: %w", m.File, err)
	}
	return nil
}

func (m exportManifest) encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(m)
	return b.Bytes(), err
}

// sumLine is what `sha256sum` would print; it has an escape for some names.
func (m exportManifest) sumLine() []byte {
	name, mark := m.File, ""
	if strings.ContainsAny(name, "\\\n\r") {
		name, mark = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`).Replace(name), `\`
	}
	return fmt.Appendf(nil, "%s%s  %s\n", mark, m.SHA256, name)
}
