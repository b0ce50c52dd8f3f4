package merger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// numbers creates the numbered files of one attempt. A name is used by nobody
// else and never again: where one is taken, or may have been taken by a put
// whose answer was lost, the next number is tried, and the commit's next_file
// lies past all of them.
type numbers struct {
	store objstore.Store
	batch dataset.BatchID

	mu   sync.Mutex
	next int
}

const maxTaken = 100

func (n *numbers) take() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.next++
	return n.next - 1
}

// past raises the next number to at least k.
func (n *numbers) past(k int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.next = max(n.next, k)
}

func (n *numbers) nextFile() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.next
}

// create stores what r holds under the first key that is free, and gives its
// number.
func (n *numbers) create(ctx context.Context, key func(number int) string, r io.ReadSeeker, size int64) (int, error) {
	for range maxTaken {
		number := n.take()
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			return 0, fmt.Errorf("create %s: %w", key(number), err)
		}
		_, err := n.store.Upload(ctx, key(number), r, size, objstore.IfAbsent())
		switch {
		case err == nil:
			return number, nil
		case errors.Is(err, objstore.ErrLost):
			// A crashed merger may have left many files in a row.
			if err := n.skip(ctx); err != nil {
				return 0, err
			}
		case errors.Is(err, objstore.ErrUnknown):
		default:
			return 0, fmt.Errorf("create %s: %w", key(number), err)
		}
		if err := ctx.Err(); err != nil {
			return 0, fmt.Errorf("create %s: %w", key(number), err)
		}
	}
	return 0, fmt.Errorf("create %s: %d names in a row are taken or have no known outcome; does this store honour If-None-Match (siltstone doctor)?",
		key(n.nextFile()), maxTaken)
}

// skip moves past every number that a listing shows.
func (n *numbers) skip(ctx context.Context) error {
	files, err := listNumbered(ctx, n.store, n.batch)
	if err != nil {
		return err
	}
	for _, f := range files {
		n.past(f.Number + 1)
	}
	return nil
}

// numbered is a merged file or digest file that lies in the store.
type numbered struct {
	dataset.Key
	objstore.Info
}

// path is the file's path within its batch.
func (f numbered) path() string { return f.Info.Key[len(f.Batch.Dir()):] }

// listNumbered lists the merged files and the digest files of a batch, in key
// order; merged.parquet of older tools, without a number, counts as number 0.
func listNumbered(ctx context.Context, s objstore.Store, b dataset.BatchID) ([]numbered, error) {
	var files []numbered
	for _, prefix := range []string{b.DigestDir(), b.Dir() + "merged"} {
		for info, err := range s.List(ctx, prefix, "") {
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", prefix, err)
			}
			k := dataset.ParseKey(info.Key)
			if k.Batch == b && (k.Kind == dataset.KindBlock || k.Kind == dataset.KindDigest || k.Kind == dataset.KindLegacy) {
				files = append(files, numbered{k, info})
			}
		}
	}
	return files, nil
}
