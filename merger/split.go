package merger

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// SplitResult says what became of the older chunks of a layer.
type SplitResult struct {
	Chunks   int                        `json:"chunks"`
	Rows     int64                      `json:"rows"`
	Rejected int64                      `json:"rejected"` // lines that belong to no batch
	Rest     int                        `json:"rest"`     // chunks that changed meanwhile
	Batches  map[dataset.BatchID]string `json:"-"`        // that got rows
}

// partBytes is how large a part of a split chunk gets. What a part holds must
// be the same whoever splits, so it stands in the run manifests of parts.
const partBytes = 8 << 20

// Split turns the older chunks of a layer, which hold rows of many batches, into
// chunks of its batches, and deletes them then. Lines that belong to no batch go
// to _rejected beside the chunk.
//
// What it stores is a function of the chunk's key, version and lines: the run is
// drawn from a hash and claimed by its manifest, and a part is created once. So
// it may be cut short anywhere, done again, and done by several at once. The
// chunk goes last, when all parts are stored, and only if it is still the one
// that was read: an empty one is put in its place by compare-and-swap, because
// stores delete without conditions, and an older tool may write it again at any
// moment. Empty ones are deleted when nobody has touched them for long.
func (e *Engine) Split(ctx context.Context, name, annotator string) (SplitResult, error) {
	res := SplitResult{Batches: map[dataset.BatchID]string{}}
	prefix := dataset.OldChunkDir(name, annotator) + "chunk_"
	for info, err := range e.store.List(ctx, prefix, "") {
		if err != nil {
			return res, fmt.Errorf("list %s: %w", prefix, err)
		}
		k := dataset.ParseKey(info.Key)
		if k.Kind != dataset.KindOldChunk || k.Batch.Dataset != name || k.Batch.Annotator != annotator {
			continue
		}
		if info.Size == 0 {
			if err := e.dropEmptied(ctx, info); err != nil {
				return res, err
			}
			continue
		}
		if err := e.splitOne(ctx, k, info, &res); err != nil {
			if !errors.Is(err, errAgain) {
				return res, fmt.Errorf("split %s: %w", info.Key, err)
			}
			res.Rest++
			e.log.Info("an older chunk changed while it was split, and stays", "chunk", info.Key, "err", err)
		}
	}
	if res.Chunks > 0 {
		e.log.Info("split older chunks", "dataset", name, "annotator", annotator, "chunks", res.Chunks,
			"rows", res.Rows, "rejected", res.Rejected, "batches", len(res.Batches))
	}
	return res, nil
}

// splitter splits one chunk.
type splitter struct {
	*Engine
	key     dataset.Key
	info    objstore.Info
	dir     string
	lines   *block.Sorter // by batch and line
	rejects *rejects
}

func (e *Engine) splitOne(ctx context.Context, k dataset.Key, info objstore.Info, res *SplitResult) error {
	dir, err := os.MkdirTemp(e.cfg.WorkDir, "split-*")
	if err != nil {
		return fmt.Errorf("make a working folder: %w", err)
	}
	defer os.RemoveAll(dir)
	s := &splitter{Engine: e, key: k, info: info, dir: dir, lines: e.sorter(dir, 2), rejects: &rejects{sorter: e.sorter(dir, 20)}}
	defer s.lines.Close()
	defer s.rejects.sorter.Close()
	if err := s.read(ctx); err != nil {
		return err
	}
	rows, rejected := s.lines.Len(), s.rejects.sorter.Len()
	if err := s.storeParts(ctx, res); err != nil {
		return err
	}
	err = s.rejects.files(dir, func(_ uint32, file *scratch) error {
		defer file.close()
		return putRejected(ctx, e.store, dir, dataset.OldRejectedKey(k.Batch.Dataset, k.Batch.Annotator, k.File), file)
	})
	if err != nil {
		return err
	}
	if err := s.drop(ctx); err != nil {
		return err
	}
	res.Chunks++
	res.Rows += rows
	res.Rejected += rejected
	return nil
}

// read sorts the lines of the chunk by their batch.
func (s *splitter) read(ctx context.Context) error {
	body, info, err := s.store.Get(ctx, s.info.Key, objstore.Span{ETag: s.info.ETag})
	switch {
	case errors.Is(err, objstore.ErrNotFound), errors.Is(err, objstore.ErrChanged):
		return again("read it: %w", err)
	case err != nil:
		return fmt.Errorf("read it: %w", err)
	}
	defer body.Close()
	if info.Size != s.info.Size {
		return again("it has %d bytes, the listing said %d", info.Size, s.info.Size)
	}
	lines := block.NewLines(body)
	var key []byte
	for {
		l, err := lines.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read it: %w", err)
		}
		reason := l.Reject
		var batch string
		if reason == "" {
			batch, reason = batchOfRow(l.Row)
		}
		if reason != "" {
			err = s.rejects.add(0, uint64(l.Number), l.Offset, reason, l.Raw)
		} else {
			key = binary.BigEndian.AppendUint64(block.AppendID(key[:0], batch), uint64(l.Number))
			err = s.lines.Add(key, l.Raw)
		}
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// batchOfRow is the batch that an annotation row belongs to, or why it belongs
// to none.
func batchOfRow(r dataset.Row) (batch, reason string) {
	raw, ok := r.Column(dataset.BatchColumn)
	switch {
	case !ok:
		return "", "the row has no _batch: nobody can tell which row it annotates"
	case len(raw) == 0 || raw[0] != '"':
		return "", "the _batch is no string"
	}
	if err := json.Unmarshal(raw, &batch); err != nil {
		return "", "the _batch is no string"
	}
	if bytes.ContainsRune([]byte(batch), utf8.RuneError) && bytes.Contains(raw, anEscape) {
		return "", "the _batch has half of a surrogate pair"
	}
	if err := dataset.CheckBatch(batch); err != nil {
		return "", "the _batch names no batch: " + err.Error()
	}
	return batch, ""
}

// storeParts stores the lines of each batch as chunks of it.
func (s *splitter) storeParts(ctx context.Context, res *SplitResult) error {
	recs, err := s.lines.Sort()
	if err != nil {
		return fmt.Errorf("sort lines: %w", err)
	}
	next, err := newCursor(recs)
	if err != nil {
		return fmt.Errorf("sort lines: %w", err)
	}
	for next.ok {
		name, _, err := block.CutID(next.rec.Key)
		if err != nil {
			return fmt.Errorf("sort lines: %w", err)
		}
		b := s.key.Batch
		b.Batch = name
		if err := s.storeBatch(ctx, b, next); err != nil {
			return err
		}
		res.Batches[b] = name
	}
	return nil
}

// storeBatch stores the lines of one batch, and leaves the cursor at the next.
func (s *splitter) storeBatch(ctx context.Context, b dataset.BatchID, next *cursor) error {
	m, err := s.claim(ctx, b)
	if err != nil {
		return err
	}
	stored := m.State != catalog.RunOpen // by an earlier try, whole
	prefix := block.AppendID(nil, b.Batch)
	m.Chunks, m.Rows, m.Bytes = 0, 0, 0
	var part bytes.Buffer
	rows := int64(0)
	put := func() error {
		if rows == 0 {
			return nil
		}
		if !stored {
			if err := s.storePart(ctx, b, m, part.Bytes(), rows); err != nil {
				return err
			}
		}
		m.Chunks++
		m.Rows += rows
		m.Bytes += int64(part.Len())
		part.Reset()
		rows = 0
		return ctx.Err()
	}
	for next.ok && bytes.HasPrefix(next.rec.Key, prefix) {
		if rows > 0 && part.Len()+len(next.rec.Payload) >= partBytes {
			if err := put(); err != nil {
				return err
			}
		}
		part.Write(next.rec.Payload)
		part.WriteByte('\n')
		rows++
		if err := next.advance(); err != nil {
			return fmt.Errorf("sort lines: %w", err)
		}
	}
	if err := put(); err != nil || stored {
		return err
	}
	m.State = catalog.RunCompleted
	return catalog.PutRun(ctx, s.store, m)
}

// claim takes the run that the chunk's key and version decide, or, where another
// writer has that, the next one.
func (s *splitter) claim(ctx context.Context, b dataset.BatchID) (catalog.RunManifest, error) {
	m := catalog.RunManifest{Dataset: b.Dataset, Batch: b.Batch, Annotator: &b.Annotator, State: catalog.RunOpen,
		StartedAt: s.info.Modified.UTC(), UpdatedAt: s.info.Modified.UTC(),
		Writer: fmt.Sprintf("split of %s at %s, parts of %d bytes", s.info.Key, s.info.ETag, partBytes)}
	return catalog.ClaimRunOf(ctx, s.store, m)
}

// storePart creates a chunk. A name that is taken is taken by the same bytes: the
// run is claimed, and its parts are a function of the chunk.
func (s *splitter) storePart(ctx context.Context, b dataset.BatchID, m catalog.RunManifest, body []byte, rows int64) error {
	key := b.ChunkKey(m.Run, m.Chunks)
	var info objstore.Info
	var err error
	for range maxTaken {
		info, err = s.store.Put(ctx, key, body, objstore.IfAbsent())
		if !errors.Is(err, objstore.ErrUnknown) || ctx.Err() != nil {
			break
		}
	}
	if errors.Is(err, objstore.ErrLost) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("store %s: %w", key, err)
	}
	if s.announce == nil {
		return nil
	}
	e := dataset.NewEvent(dataset.AnnotationUpdated, b, s.cfg.Now())
	e.Key, e.ETag, e.Rows, e.Bytes = key, info.ETag, &rows, int64(len(body))
	if err := s.announce.Publish(ctx, e); err != nil {
		// It is stored: the store's notification or the reconciler tells of it.
		s.log.Warn("cannot announce a chunk", "chunk", key, "err", err)
	}
	return nil
}

// drop empties the chunk, unless somebody has written it again since.
func (s *splitter) drop(ctx context.Context) error {
	_, err := s.store.Put(ctx, s.info.Key, nil, objstore.IfMatch(s.info.ETag))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, objstore.ErrNotFound), errors.Is(err, objstore.ErrLost), errors.Is(err, objstore.ErrUnknown):
		return again("empty it: %w", err) // by somebody else, or not yet: whoever splits next sees
	}
	return fmt.Errorf("empty it: %w", err)
}

// emptiedFor is for how long an emptied chunk stays: nobody writes it again then.
const emptiedFor = time.Hour

// dropEmptied deletes a chunk that was emptied long ago.
func (e *Engine) dropEmptied(ctx context.Context, info objstore.Info) error {
	if e.cfg.Now().Sub(info.Modified) < emptiedFor {
		return nil
	}
	if err := e.store.Delete(ctx, info.Key); err != nil {
		return fmt.Errorf("delete emptied chunk %s: %w", info.Key, err)
	}
	return nil
}
