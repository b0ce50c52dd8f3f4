package catalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// FindRecord is ReadHead for whoever would take a batch without a commit record
// for one of which nothing is merged. One that has had a record, which is gone,
// is ErrDamaged: its live chunks are not all of it, and a record made anew would
// name none of its blocks. It costs a list where there is no record, and more
// only where merged files lie there: before the first commit, they may be those
// of a merge that is under way or was cut short, or those of another tool, which
// gave them no manifest.yaml. The latter make the head foreign:
//
//   - merged.parquet, because nobody else writes one;
//   - blocks without a single live chunk, because an unfinished merge leaves the
//     chunks of its blocks where they are.
//
// Blocks beside live chunks tell nothing: a merge reads them (see Head.Bare),
// and readers need not, since what an unfinished merge took is still live.
func FindRecord(ctx context.Context, s objstore.Store, b dataset.BatchID) (Head, error) {
	h, err := ReadHead(ctx, s, b)
	if err != nil || h.etag != "" {
		return h, err
	}
	legacy, file, err := firstMerged(ctx, s, b)
	if err != nil || legacy == "" && file == "" {
		return h, err // every record names a block
	}
	sign, foreign := "", legacy != ""
	if file != "" {
		var live bool
		if sign, live, err = signOfRecord(ctx, s, b, h); err != nil {
			return h, err
		}
		foreign = foreign || !live
	}
	if sign == "" && !foreign {
		return h, nil
	}
	// Or it was made in this moment.
	if h, err = ReadHead(ctx, s, b); err != nil || h.etag != "" {
		return h, err
	}
	if sign != "" {
		return Head{}, LostRecord(b, fmt.Errorf("%w: it is gone: %s lies there, and %s", ErrDamaged, file, sign))
	}
	h.Foreign = true
	return h, nil
}

// firstMerged gives merged.parquet and the first block of a batch, "" where
// there is none.
func firstMerged(ctx context.Context, s objstore.Store, b dataset.BatchID) (legacy, file string, err error) {
	prefix := b.Dir() + "merged"
	for info, err := range s.List(ctx, prefix, "") {
		if err != nil {
			return "", "", fmt.Errorf("list %s: %w", prefix, err)
		}
		switch k := dataset.ParseKey(info.Key); {
		case k.Batch != b:
		case k.Kind == dataset.KindLegacy:
			legacy = info.Key
		case k.Kind == dataset.KindBlock:
			return legacy, info.Key, nil // "." comes before "_"
		}
	}
	return legacy, "", nil
}

// signOfRecord tells by what a batch that has none is known to have had one: a
// record in history, or chunks of completed runs that are gone. Nobody deletes a
// chunk before a record has absorbed it. live says that there are live chunks.
func signOfRecord(ctx context.Context, s objstore.Store, b dataset.BatchID, h Head) (sign string, live bool, err error) {
	history, err := first(ctx, s, b, b.HistoryDir(), dataset.KindHistory)
	if err != nil {
		return "", false, err
	}
	if history != "" {
		return "so does " + history, false, nil
	}
	l, err := ListLive(ctx, s, b)
	if err != nil {
		return "", false, err
	}
	lost, err := FindMissing(ctx, s, b, h, l)
	if err != nil || len(lost) == 0 {
		return "", len(l.Chunks) > 0, err
	}
	return lost[0].String(), false, nil
}

// first gives the first object of a kind below prefix, "" where there is none.
func first(ctx context.Context, s objstore.Store, b dataset.BatchID, prefix string, kind dataset.Kind) (string, error) {
	for info, err := range s.List(objstore.ExpectFew(ctx), prefix, "") {
		if err != nil {
			return "", fmt.Errorf("list %s: %w", prefix, err)
		}
		if k := dataset.ParseKey(info.Key); k.Batch == b && k.Kind == kind {
			return info.Key, nil
		}
	}
	return "", nil
}

// LostRecord adds to what is wrong with a commit record how to get one again.
func LostRecord(b dataset.BatchID, damage error) error {
	return fmt.Errorf("%s: %w; put back its last version, from a backup or the store's own versions; if there is none, `siltstone verify %s/%s --repair` makes a new one, of the merged files that lie there",
		b.CommitKey(), damage, b.Dataset, b.Batch)
}

// ReadLost gives what a new record is built on where the batch's own is lost, or
// where another tool's manifest.yaml lies in its place. known is the newest
// record in history that can be read, of generation 0 where there is none.
//
// The head names no block. Its generation lies past that of any record that there
// can have been, so that nobody takes the new one for an older one; next_file past
// all that known knew of. A lost record's head has the runs, the absorbed chunks
// and the counters of known; of another tool's, nobody knows what it did to them.
// A record that is there after all is given as ReadHead does.
func ReadLost(ctx context.Context, s objstore.Store, b dataset.BatchID) (h Head, known Record, err error) {
	raw, info, err := objstore.ReadAll(ctx, s, b.CommitKey())
	if err != nil && !errors.Is(err, objstore.ErrNotFound) {
		return Head{}, Record{}, fmt.Errorf("read commit record %s: %w", b.CommitKey(), err)
	}
	h = Head{Record: blank(b), Lost: true, etag: info.ETag, raw: raw}
	if err == nil {
		r, foreign, err := parseRecord(raw)
		switch {
		case foreign:
			h.Foreign, h.Lost = true, false
		case err == nil && r.ID() == b:
			return Head{Record: r, etag: info.ETag, raw: raw}, Record{}, nil
		case err != nil && !errors.Is(err, ErrDamaged):
			return Head{}, Record{}, fmt.Errorf("%s: %w", b.CommitKey(), err)
		}
	}
	numbers, err := generations(ctx, s, b)
	if err != nil {
		return Head{}, Record{}, err
	}
	newest := int64(0)
	for _, n := range numbers {
		newest = max(newest, n)
		if n == 0 {
			continue
		}
		past, err := readPast(ctx, s, b, n)
		if errors.Is(err, ErrDamaged) || errors.Is(err, objstore.ErrNotFound) {
			continue
		}
		if err != nil {
			return Head{}, Record{}, err
		}
		known = past.Record
		break
	}
	if h.Lost && known.Generation > 0 {
		h.Record = known
		h.Record.Blocks, h.Record.Digests = nil, nil
		h.Record.Rows, h.Record.Bytes, h.Record.RawBytes = 0, 0, 0
	}
	h.Record.NextFile = max(h.Record.NextFile, known.NextFile)
	h.Record.Generation = 0
	if h.Lost || newest > 0 {
		h.Record.Generation = newest + 1 // the lost one's, at most
	}
	return h, known, nil
}
