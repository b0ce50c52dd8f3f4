package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/siltstone-data/siltstone/dataset"
)

// RecordVersion is the version of commit records that this code writes.
const RecordVersion = 1

// ErrDamaged reports stored bytes that break a promise of the format.
var ErrDamaged = errors.New("damaged")

// Record is a commit record: the one source of truth for what of a batch is
// merged.
type Record struct {
	Version     int       `json:"version"`
	Dataset     string    `json:"dataset"`
	Batch       string    `json:"batch"`
	Annotator   *string   `json:"annotator"`
	Generation  int64     `json:"generation"`
	Commit      string    `json:"commit"` // fresh for every attempt: 16 hex digits
	CommittedAt time.Time `json:"committed_at"`
	CommittedBy string    `json:"committed_by"`

	// DeduplicateOn is nil while no run has said anything, and empty once
	// deduplication has ended.
	DeduplicateOn []string `json:"deduplicate_on"`

	Rows        int64 `json:"rows"`
	Bytes       int64 `json:"bytes"`     // of all blocks, as stored
	RawBytes    int64 `json:"raw_bytes"` // of all rows with their newlines
	Duplicates  int64 `json:"duplicates"`
	Rejected    int64 `json:"rejected"`
	IDConflicts int64 `json:"id_conflicts"`

	// Spread is how many raw bytes of blocks a merge has to write again because
	// new ids fall into their ranges: of the last one, or half of what the record
	// before said where that is more.
	Spread int64 `json:"spread,omitempty"`

	// NextFile lies past every number of a block or digest file that the
	// record's writer used or saw taken.
	NextFile int          `json:"next_file"`
	Blocks   []Block      `json:"blocks"`
	Digests  []DigestFile `json:"digests"`

	Runs map[dataset.Run]RunState `json:"runs"`
	// Chunks holds name and ETag of absorbed chunks without a run manifest.
	Chunks map[string]string `json:"chunks,omitempty"`

	Garbage []Garbage `json:"garbage"`
	Deleted bool      `json:"deleted,omitempty"`
}

// Block is a merged block as its commit record describes it.
type Block struct {
	File     string `json:"file"`
	Rows     int64  `json:"rows"`
	Bytes    int64  `json:"bytes"`
	RawBytes int64  `json:"raw_bytes"`
	FirstID  string `json:"first_id"`
	LastID   string `json:"last_id"`
	SHA256   string `json:"sha256"`
}

// DigestFile is a sorted file of dedup digests, one of 16 bytes for each
// merged row.
type DigestFile struct {
	File    string   `json:"file"`
	Rows    int64    `json:"rows"`
	Bytes   int64    `json:"bytes"`
	SHA256  string   `json:"sha256"`
	Columns []string `json:"columns"`
}

// RunState is what the record remembers of a run.
type RunState struct {
	DeduplicateOn []string `json:"deduplicate_on"`
	State         string   `json:"state"`
	Absorbed      Ranges   `json:"absorbed"`
}

// Garbage is a block or digest file (its path within the batch) that a commit
// replaced. The file is deleted after the grace period; the entry leaves the
// list only in a commit whose writer saw the file absent after it had read the
// record, or the file could become an orphan that history still names.
type Garbage struct {
	File  string    `json:"file"`
	Since time.Time `json:"since"`
}

// ID is the batch that the record belongs to.
func (r Record) ID() dataset.BatchID {
	b := dataset.BatchID{Dataset: r.Dataset, Batch: r.Batch}
	if r.Annotator != nil {
		b.Annotator = *r.Annotator
	}
	return b
}

// Next is a copy to change and commit: everything of r, one generation on.
func (r Record) Next(commit, by string, at time.Time) Record {
	n := r
	n.Version = RecordVersion
	n.Generation++
	n.Commit, n.CommittedBy, n.CommittedAt = commit, by, at.UTC()
	n.Blocks = slices.Clone(r.Blocks)
	n.Digests = slices.Clone(r.Digests)
	n.Garbage = slices.Clone(r.Garbage)
	n.Runs = maps.Clone(r.Runs)
	n.Chunks = maps.Clone(r.Chunks)
	return n
}

// Names reports the files, as paths within the batch, that the record needs
// or will still delete: blocks, digests and garbage.
func (r Record) Names() map[string]bool {
	names := make(map[string]bool, len(r.Blocks)+len(r.Digests)+len(r.Garbage))
	for _, b := range r.Blocks {
		names[b.File] = true
	}
	for _, d := range r.Digests {
		names[digestPath(d.File)] = true
	}
	for _, g := range r.Garbage {
		names[g.File] = true
	}
	return names
}

// digestPath is a digest file's path within its batch.
func digestPath(file string) string { return "_digests/" + file }

// GarbageBlock is the garbage entry for a block that a commit replaces.
func GarbageBlock(b Block, since time.Time) Garbage {
	return Garbage{File: b.File, Since: since.UTC()}
}

// GarbageDigest is the garbage entry for a digest file that a commit replaces.
func GarbageDigest(d DigestFile, since time.Time) Garbage {
	return Garbage{File: digestPath(d.File), Since: since.UTC()}
}

// Absorbed reports whether the blocks already hold what the chunk held. It
// stays true for as long as the record knows the run, so a chunk that comes
// late, twice or back from the dead is ignored.
func (r Record) Absorbed(c Chunk) bool {
	if r.Runs[c.Run].Absorbed.Has(c.Number) {
		return true
	}
	etag, ok := r.Chunks[c.Name()]
	return ok && etag == c.ETag
}

// Absorb notes in a record about to be committed that its blocks hold the
// chunk. known says whether the chunk's run has a manifest; a chunk without one
// is remembered by name and ETag, since an older tool may use the name again.
func (r *Record) Absorb(c Chunk, known bool) {
	if known {
		if r.Runs == nil {
			r.Runs = make(map[dataset.Run]RunState)
		}
		s := r.Runs[c.Run]
		s.Absorbed = s.Absorbed.Add(c.Number)
		r.Runs[c.Run] = s
		return
	}
	if r.Chunks == nil {
		r.Chunks = make(map[string]string)
	}
	r.Chunks[c.Name()] = c.ETag
}

// encode writes the record as JSON, which is YAML: no name changes its type.
func (r Record) encode() ([]byte, error) {
	r.Blocks = orEmpty(r.Blocks)
	r.Digests = orEmpty(r.Digests)
	r.Garbage = orEmpty(r.Garbage)
	if r.Runs == nil {
		r.Runs = map[dataset.Run]RunState{}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(r)
	return b.Bytes(), err
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// parseRecord reads a commit record. foreign means that the bytes are some
// other tool's manifest.yaml: readable text without what every record has.
func parseRecord(raw []byte) (r Record, foreign bool, err error) {
	text := bytes.TrimSpace(raw)
	switch {
	case len(text) == 0:
		// Nobody writes such a manifest: adopting the files that lie here as a
		// foreign batch's would bring replaced rows back.
		return Record{}, false, fmt.Errorf("%w: commit record is empty", ErrDamaged)
	case !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0:
		return Record{}, false, fmt.Errorf("%w: commit record is no text", ErrDamaged)
	}
	// Records may be long: one pass for those that are as they should be.
	type plain Record
	var whole struct {
		Version *int    `json:"version"`
		Commit  *string `json:"commit"`
		plain
	}
	if err := json.Unmarshal(text, &whole); err == nil && whole.Version != nil && whole.Commit != nil && *whole.Version <= RecordVersion {
		r = Record(whole.plain)
		r.Version, r.Commit = *whole.Version, *whole.Commit
		return r, false, nil
	}
	var probe struct {
		Version *int    `json:"version"`
		Commit  *string `json:"commit"`
	}
	if err := json.Unmarshal(text, &probe); err != nil {
		if isOurs(text) {
			return Record{}, false, fmt.Errorf("%w: commit record is no JSON: %w", ErrDamaged, err)
		}
		return Record{}, true, nil
	}
	if probe.Version == nil || probe.Commit == nil {
		return Record{}, true, nil
	}
	if *probe.Version > RecordVersion {
		return Record{}, false, fmt.Errorf("commit record has version %d, this build knows %d: use a newer siltstone", *probe.Version, RecordVersion)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return Record{}, false, fmt.Errorf("%w: commit record: %w", ErrDamaged, err)
	}
	return r, false, nil
}

// isOurs tells a record that was cut or overwritten from another tool's text.
func isOurs(text []byte) bool {
	const start = `{"version":`
	return bytes.HasPrefix(text, []byte(start[:min(len(start), len(text))])) ||
		text[0] == '{' && bytes.Contains(text, []byte(`"commit"`))
}
