package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// States of a run.
const (
	RunOpen      = "open"
	RunCompleted = "completed"
	RunFailed    = "failed"
)

// RunManifest says who writes a run, how its rows are deduplicated and whether
// it is closed.
type RunManifest struct {
	Version   int         `json:"version"`
	Run       dataset.Run `json:"run"`
	Dataset   string      `json:"dataset"`
	Batch     string      `json:"batch"`
	Annotator *string     `json:"annotator"`
	// DeduplicateOn is nil for a run without an opinion; an empty list ends
	// deduplication for the batch.
	DeduplicateOn []string `json:"deduplicate_on"`
	Writer        string   `json:"writer"`
	// Token is that of the lease under which an annotator's run is written, 0 for
	// all other runs. Whoever has the lease next may end such a run.
	Token     int64     `json:"token,omitempty"`
	StartedAt time.Time `json:"started_at"`
	State     string    `json:"state"`
	Chunks    int       `json:"chunks"`
	Rows      int64     `json:"rows"`
	Bytes     int64     `json:"bytes"`
	UpdatedAt time.Time `json:"updated_at"`

	// ETag is the version that was claimed or read.
	ETag string `json:"-"`
}

// ID is the batch that the run writes to.
func (m RunManifest) ID() dataset.BatchID {
	b := dataset.BatchID{Dataset: m.Dataset, Batch: m.Batch}
	if m.Annotator != nil {
		b.Annotator = *m.Annotator
	}
	return b
}

// ClaimRun draws run ids from random until it creates the manifest of one, and
// gives m with that id. A taken id, or one whose creation has no known outcome,
// is given up for another: a run has one writer, ever.
func ClaimRun(ctx context.Context, s objstore.Store, m RunManifest, random io.Reader) (RunManifest, error) {
	m.Version = RunVersion
	for range 100 {
		var b [3]byte
		if _, err := io.ReadFull(random, b[:]); err != nil {
			return RunManifest{}, fmt.Errorf("draw run id: %w", err)
		}
		m.Run = dataset.Run(hex.EncodeToString(b[:]))
		raw, err := json.Marshal(m)
		if err != nil {
			return RunManifest{}, fmt.Errorf("encode run manifest: %w", err)
		}
		info, err := s.Put(ctx, m.ID().RunKey(m.Run), raw, objstore.IfAbsent())
		switch {
		case err == nil:
			m.ETag = info.ETag
			return m, nil
		case errors.Is(err, objstore.ErrLost), errors.Is(err, objstore.ErrUnknown):
			continue
		default:
			return RunManifest{}, fmt.Errorf("claim run %s: %w", m.Run, err)
		}
	}
	return RunManifest{}, fmt.Errorf("claim run: 100 ids in a row are taken in %s", m.ID())
}

// ClaimRunOf creates the manifest of a run whose id follows from m's batch and
// writer, or finds it there as an earlier try of the same work has left it. A run
// of another writer is stepped over.
func ClaimRunOf(ctx context.Context, s objstore.Store, m RunManifest) (RunManifest, error) {
	m.Version = RunVersion
	b := m.ID()
	for n := range 100 {
		sum := sha256.Sum256(fmt.Appendf(nil, "siltstone run\x00%s\x00%s\x00%d", b, m.Writer, n))
		m.Run = dataset.Run(hex.EncodeToString(sum[:3]))
		raw, err := json.Marshal(m)
		if err != nil {
			return RunManifest{}, fmt.Errorf("encode run manifest: %w", err)
		}
		for tries := 0; ; tries++ {
			_, err = s.Put(ctx, b.RunKey(m.Run), raw, objstore.IfAbsent())
			if err == nil {
				return m, nil
			}
			if !errors.Is(err, objstore.ErrLost) && !errors.Is(err, objstore.ErrUnknown) || ctx.Err() != nil {
				return RunManifest{}, fmt.Errorf("claim run %s: %w", m.Run, err)
			}
			have, rerr := ReadRun(ctx, s, b, m.Run)
			if rerr == nil && have.Writer == m.Writer {
				return have, nil
			}
			if errors.Is(rerr, objstore.ErrNotFound) && tries < 10 {
				continue // it was never stored
			}
			if rerr != nil && !errors.Is(rerr, ErrDamaged) {
				return RunManifest{}, rerr
			}
			break // another writer's
		}
	}
	return RunManifest{}, fmt.Errorf("claim run: 100 ids in a row are taken in %s", b)
}

// PutRun rewrites the manifest of a run; only its writer does.
func PutRun(ctx context.Context, s objstore.Store, m RunManifest) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode run manifest: %w", err)
	}
	if _, err := s.Put(ctx, m.ID().RunKey(m.Run), raw, objstore.Condition{}); err != nil {
		return fmt.Errorf("update run manifest %s: %w", m.ID().RunKey(m.Run), err)
	}
	return nil
}

// EndRun closes a run that its writer and the next holder of its lease may both
// want to close: by compare-and-swap with the version of the manifest that m was
// claimed or read as. It gives what the manifest says in the end, and ErrLost
// where that is another's word.
func EndRun(ctx context.Context, s objstore.Store, m RunManifest) (RunManifest, error) {
	key := m.ID().RunKey(m.Run)
	raw, err := json.Marshal(m)
	if err != nil {
		return m, fmt.Errorf("encode run manifest: %w", err)
	}
	info, err := s.Put(ctx, key, raw, objstore.IfMatch(m.ETag))
	switch {
	case err == nil:
		m.ETag = info.ETag
		return m, nil
	case !errors.Is(err, objstore.ErrLost) && !errors.Is(err, objstore.ErrUnknown):
		return m, fmt.Errorf("update run manifest %s: %w", key, err)
	}
	now, rerr := ReadRun(ctx, s, m.ID(), m.Run)
	if rerr != nil {
		return m, errors.Join(fmt.Errorf("update run manifest %s: %w", key, err), rerr)
	}
	if now.State == m.State && now.UpdatedAt.Equal(m.UpdatedAt) && now.Chunks == m.Chunks && now.Rows == m.Rows {
		return now, nil // it was stored after all
	}
	return now, fmt.Errorf("update run manifest %s: %w", key, objstore.ErrLost)
}

// RunVersion is the version of run manifests that this code writes.
const RunVersion = 1

// ReadRun reads a run manifest. One that does not say whose it is, as other
// writers leave them, is the run's under whose name it lies.
func ReadRun(ctx context.Context, s objstore.Store, b dataset.BatchID, r dataset.Run) (RunManifest, error) {
	raw, info, err := objstore.ReadAll(ctx, s, b.RunKey(r))
	if err != nil {
		return RunManifest{}, fmt.Errorf("read run manifest %s: %w", b.RunKey(r), err)
	}
	m, err := parseRun(raw, b, r)
	m.ETag = info.ETag
	if errors.Is(err, ErrDamaged) {
		// A merge cannot guess what the run says of deduplication.
		err = fmt.Errorf(`%w; put the file back as it was, or in its place {"run":%q,"deduplicate_on":LIST,"state":"failed"}, where LIST is the list that its writer gave (null: none)`, err, r)
	}
	if err != nil {
		return RunManifest{}, fmt.Errorf("run manifest %s: %w", b.RunKey(r), err)
	}
	return m, nil
}

func parseRun(raw []byte, b dataset.BatchID, r dataset.Run) (RunManifest, error) {
	var probe struct {
		Version int `json:"version"`
	}
	// Fields of a newer version may have other types, which is no damage.
	if err := json.Unmarshal(raw, &probe); err == nil && probe.Version > RunVersion {
		return RunManifest{}, fmt.Errorf("it has version %d, this build knows %d: use a newer siltstone", probe.Version, RunVersion)
	}
	var m RunManifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return RunManifest{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if m.Run == "" {
		m.Run = r
	}
	if m.Dataset == "" && m.Batch == "" && m.Annotator == nil {
		id := blank(b)
		m.Dataset, m.Batch, m.Annotator = id.Dataset, id.Batch, id.Annotator
	}
	if m.Run != r || m.ID() != b {
		return RunManifest{}, fmt.Errorf("%w: it lies with run %s of %s, and says that it is of run %s of %s", ErrDamaged, r, b, m.Run, m.ID())
	}
	return m, nil
}

// MergeRuns gives what the next record says of runs: everything that the record
// knows, and the manifests among listed that it does not know as closed. A
// merger calls it after it has read the record.
func MergeRuns(ctx context.Context, s objstore.Store, r Record, listed []dataset.Run) (map[dataset.Run]RunState, error) {
	runs := make(map[dataset.Run]RunState, len(r.Runs)+len(listed))
	for id, st := range r.Runs {
		runs[id] = st
	}
	for _, id := range listed {
		st, known := runs[id]
		if known && st.State != RunOpen {
			continue // closed: its manifest does not change any more
		}
		m, err := ReadRun(ctx, s, r.ID(), id)
		if err != nil {
			return nil, err
		}
		st.DeduplicateOn, st.State = m.DeduplicateOn, m.State
		runs[id] = st
	}
	return runs, nil
}

// InForce is the list of columns that a batch is deduplicated on: the
// intersection, sorted, over all runs that have an opinion. It is nil where none
// has, and empty (not nil) where a run ended deduplication or the lists have no
// column in common.
func InForce(runs map[dataset.Run]RunState) []string {
	var in []string
	for _, st := range runs {
		switch {
		case st.DeduplicateOn == nil:
		case in == nil:
			in = slices.Clone(st.DeduplicateOn)
			slices.Sort(in)
			in = slices.Compact(in)
			in = orEmpty(in)
		default:
			in = slices.DeleteFunc(in, func(c string) bool { return !slices.Contains(st.DeduplicateOn, c) })
		}
	}
	return in
}

// SameList reports whether two lists in force are the same; nil differs from
// the empty list.
func SameList(a, b []string) bool {
	return (a == nil) == (b == nil) && slices.Equal(a, b)
}
