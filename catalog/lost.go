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
// of a merge that is under way or was cut short.
func FindRecord(ctx context.Context, s objstore.Store, b dataset.BatchID) (Head, error) {
	h, err := ReadHead(ctx, s, b)
	if err != nil || h.etag != "" {
		return h, err
	}
	file, err := first(ctx, s, b, b.Dir()+"merged", dataset.KindBlock)
	if err != nil || file == "" {
		return h, err // every record names a block
	}
	sign, err := signOfRecord(ctx, s, b, h)
	if err != nil || sign == "" {
		return h, err
	}
	// Or it was made in this moment.
	if h, err = ReadHead(ctx, s, b); err != nil || h.etag != "" {
		return h, err
	}
	return Head{}, noRecord(ctx, s, b, fmt.Errorf("%w: it is gone: %s lies there, and %s", ErrDamaged, file, sign))
}

// signOfRecord tells by what a batch that has none is known to have had one: a
// record in history, or chunks of completed runs that are gone. Nobody deletes a
// chunk before a record has absorbed it.
func signOfRecord(ctx context.Context, s objstore.Store, b dataset.BatchID, h Head) (string, error) {
	history, err := first(ctx, s, b, b.HistoryDir(), dataset.KindHistory)
	if err != nil {
		return "", err
	}
	if history != "" {
		return "so does " + history, nil
	}
	l, err := ListLive(ctx, s, b)
	if err != nil {
		return "", err
	}
	lost, err := FindMissing(ctx, s, b, h, l)
	if err != nil || len(lost) == 0 {
		return "", err
	}
	return lost[0].String(), nil
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
