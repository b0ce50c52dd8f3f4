package catalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// Head is the commit record of a batch as it was read: what the next commit
// builds on and compares with.
type Head struct {
	Record Record // generation 0 where there is none yet
	// Foreign says that another tool has merged the batch: its manifest.yaml lies
	// in the record's place, or its merged files without one. The first commit
	// adopts those files.
	Foreign bool
	// Lost says that there was a record, and that it is gone or damaged: what
	// ReadLost gives for a new one to build on.
	Lost bool

	etag string // of what lies under the record's key, "" for nothing
	raw  []byte
}

// Exists reports whether there is a commit record.
func (h Head) Exists() bool { return h.etag != "" && !h.Foreign && !h.Lost }

// Bare reports whether there is no manifest.yaml at all. Blocks that lie there
// may then be those of a first merge that was never committed.
func (h Head) Bare() bool { return h.etag == "" }

// ReadHead reads the commit record of a batch. A batch that has none gives a
// head of generation 0.
func ReadHead(ctx context.Context, s objstore.Store, b dataset.BatchID) (Head, error) {
	raw, info, err := objstore.ReadAll(ctx, s, b.CommitKey())
	if errors.Is(err, objstore.ErrNotFound) {
		return Head{Record: blank(b)}, nil
	}
	if err != nil {
		return Head{}, fmt.Errorf("read commit record %s: %w", b.CommitKey(), err)
	}
	r, foreign, err := parseRecord(raw)
	if foreign {
		return Head{Record: blank(b), Foreign: true, etag: info.ETag, raw: raw}, nil
	}
	if err == nil && r.ID() != b {
		err = fmt.Errorf("%w: it says that it belongs to %s", ErrDamaged, r.ID())
	}
	if errors.Is(err, ErrDamaged) {
		return Head{}, LostRecord(b, err)
	}
	if err != nil {
		return Head{}, fmt.Errorf("%s: %w", b.CommitKey(), err)
	}
	return Head{Record: r, etag: info.ETag, raw: raw}, nil
}

func blank(b dataset.BatchID) Record {
	r := Record{Version: RecordVersion, Dataset: b.Dataset, Batch: b.Batch}
	if b.Annotator != "" {
		r.Annotator = &b.Annotator
	}
	return r
}

// Commit makes next the record of the batch if nothing has been committed
// since h was read. objstore.ErrLost means that next is not, or not for sure,
// what the batch now says: the caller starts again from a listing, with a new
// commit id, and leaves every file that it wrote to the sweeper, because a put
// that seemed lost may still land.
func Commit(ctx context.Context, s objstore.Store, h Head, next Record) (Head, error) {
	b := next.ID()
	if err := h.keep(ctx, s, b); err != nil {
		return Head{}, fmt.Errorf("keep record in history: %w", err)
	}
	raw, err := next.encode()
	if err != nil {
		return Head{}, fmt.Errorf("encode commit record: %w", err)
	}
	cond := objstore.IfAbsent()
	if h.etag != "" {
		cond = objstore.IfMatch(h.etag)
	}
	info, err := s.Put(ctx, b.CommitKey(), raw, cond)
	if err == nil {
		return Head{Record: next, etag: info.ETag, raw: raw}, nil
	}
	if !errors.Is(err, objstore.ErrLost) && !errors.Is(err, objstore.ErrNotFound) && !errors.Is(err, objstore.ErrUnknown) {
		return Head{}, fmt.Errorf("commit %s: %w", b.CommitKey(), err)
	}
	now, readErr := ReadHead(ctx, s, b)
	if readErr != nil {
		return Head{}, errors.Join(fmt.Errorf("commit %s: %w", b.CommitKey(), err), readErr)
	}
	if now.Record.Commit == next.Commit {
		return now, nil
	}
	return Head{}, fmt.Errorf("commit %s: %w", b.CommitKey(), objstore.ErrLost)
}

// keep stores what is about to be replaced in history: before the commit, so that
// no record is ever missing there. All who build on h write the same bytes. What
// is no record goes where none does, and only what lay there first stays.
func (h Head) keep(ctx context.Context, s objstore.Store, b dataset.BatchID) error {
	if h.etag == "" {
		return nil
	}
	if h.Exists() {
		_, err := s.Put(ctx, b.HistoryKey(h.Record.Generation), h.raw, objstore.Condition{})
		return err
	}
	_, err := s.Put(ctx, b.HistoryKey(0), h.raw, objstore.IfAbsent())
	if errors.Is(err, objstore.ErrLost) {
		return nil
	}
	return err
}
