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
		return Head{}, noRecord(ctx, s, b, fmt.Errorf("%w: it is gone: %s lies there, and %s", ErrDamaged, file, sign))
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
	for info, err := range s.List(ctx, prefix, "") {
		if err != nil {
			return "", fmt.Errorf("list %s: %w", prefix, err)
		}
		if k := dataset.ParseKey(info.Key); k.Batch == b && k.Kind == kind {
			return info.Key, nil
		}
	}
	return "", nil
}

// noRecord adds to what is wrong with a commit record how to get one again.
func noRecord(ctx context.Context, s objstore.Store, b dataset.BatchID, damage error) error {
	newest := ""
	for info, err := range s.List(ctx, b.HistoryDir(), "") {
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", b.CommitKey(), damage), fmt.Errorf("list %s: %w", b.HistoryDir(), err))
		}
		if k := dataset.ParseKey(info.Key); k.Batch == b && k.Kind == dataset.KindHistory && k.Number > 0 {
			newest = info.Key // they come in order
		}
	}
	// History lacks the last record itself. Without any, there was one merge,
	// and what lies there is of it.
	way := "put any other text in its place, such as the word lost, and the next merge adopts every merged file that lies there"
	if newest != "" {
		way = fmt.Sprintf("put %s in its place, which lacks what the last merge added (copy the merged files away before: a sweep deletes what no record names)", newest)
	}
	return fmt.Errorf("%s: %w; put back its last version, from a backup or the store's own versions; if there is none, %s", b.CommitKey(), damage, way)
}
