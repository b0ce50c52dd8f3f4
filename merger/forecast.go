package merger

import (
	"context"
	"fmt"
	"io"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// Forecast says what a merge would do now.
type Forecast struct {
	Due     bool     `json:"due"` // it would commit
	Why     []string `json:"why"` // it would, or would not
	Deleted bool     `json:"deleted,omitempty"`

	Generation int64 `json:"generation"`  // that is current; 0 for none
	LiveChunks int   `json:"live_chunks"` // not absorbed yet
	LiveBytes  int64 `json:"live_bytes"`
	Leftovers  int   `json:"leftovers"` // absorbed chunks that still lie there: it would delete them

	// The list in force, of the record and after the merge.
	DeduplicatedOn []string `json:"deduplicated_on"`
	DeduplicateOn  []string `json:"deduplicate_on"`
	FullPass       bool     `json:"full_pass"` // the rows of all blocks would be decided again

	Rows        int64 `json:"rows"` // of the batch, after the merge
	Added       int64 `json:"added"`
	Duplicates  int64 `json:"duplicates"`
	Rejected    int64 `json:"rejected"`
	IDConflicts int64 `json:"id_conflicts"`

	Kept         int      `json:"blocks_kept"`
	Rewritten    []string `json:"blocks_rewritten"` // blocks that would be replaced
	Created      int      `json:"blocks_created"`
	BytesWritten int64    `json:"bytes_written"` // of the blocks that would be created
}

// Plan does what Merge does up to the commit, and stores nothing: it reads the
// chunks and the blocks that a merge would rewrite, and gives what would come out.
func (e *Engine) Plan(ctx context.Context, b dataset.BatchID) (Forecast, error) {
	if err := b.Check(); err != nil {
		return Forecast{}, err
	}
	dry := *e
	dry.store, dry.announce, dry.metrics = discarding{e.store}, nil, NewMetrics(nil)
	var f Forecast
	_, err := dry.attempts(ctx, b, func(ctx context.Context, a *attempt) (res Result, err error) {
		f, res, err = a.forecast(ctx)
		return res, err
	})
	if err != nil {
		return Forecast{}, fmt.Errorf("plan a merge of %s: %w", b, err)
	}
	return f, nil
}

func (a *attempt) forecast(ctx context.Context) (Forecast, Result, error) {
	next, res, err := a.work(ctx)
	if err != nil {
		return Forecast{}, res, err
	}
	r := a.head.Record
	f := Forecast{
		Due: next != nil, Deleted: r.Deleted, Generation: r.Generation, Rows: r.Rows,
		LiveChunks: len(a.live), Leftovers: len(a.leftover), Kept: len(r.Blocks),
		DeduplicatedOn: r.DeduplicateOn, DeduplicateOn: a.columns, Rewritten: []string{},
	}
	if !a.head.Exists() {
		f.Generation = 0
	}
	for _, c := range a.live {
		f.LiveBytes += c.Size
	}
	f.Why = a.reasons()
	if next == nil {
		return f, res, nil
	}
	f.FullPass, f.Rows, f.Added, f.Duplicates = res.FullPass, res.Rows, res.Added, res.Duplicates
	f.Rejected, f.IDConflicts, f.Kept, f.Created = res.Rejected, res.IDConflicts, res.Kept, res.Written
	was, is := map[string]bool{}, map[string]bool{}
	for _, bl := range r.Blocks {
		was[bl.File] = true
	}
	for _, bl := range next.Blocks {
		is[bl.File] = true
		if !was[bl.File] {
			f.BytesWritten += bl.Bytes
		}
	}
	for _, bl := range r.Blocks {
		if !is[bl.File] {
			f.Rewritten = append(f.Rewritten, bl.File)
		}
	}
	return f, res, nil
}

// reasons says why there is something to commit, or why there is not.
func (a *attempt) reasons() []string {
	r := a.head.Record
	var why []string
	add := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	if r.Deleted {
		add("the batch was removed")
		return why
	}
	if n := len(a.live); n > 0 {
		add("live chunks: %d", n)
	}
	if n := len(a.adopted.files); n > 0 {
		add("merged files of another tool to adopt: %d", n)
	}
	if a.head.Exists() && !catalog.SameList(a.columns, r.DeduplicateOn) {
		add("the list in force changes from %s to %s, as the runs say", listName(r.DeduplicateOn), listName(a.columns))
	}
	if a.fullPass() {
		add("full pass: the merged rows have no digests on %s", listName(a.columns))
	}
	if len(why) == 0 {
		add("no live chunk, and the runs say of deduplication what the record does")
	}
	return why
}

func listName(columns []string) string {
	switch {
	case columns == nil:
		return "none (no run says anything)"
	case len(columns) == 0:
		return "[] (deduplication has ended)"
	}
	return fmt.Sprintf("%q", columns)
}

// discarding is a store in which every write succeeds, and nothing is written.
type discarding struct{ objstore.Store }

func (discarding) Put(_ context.Context, key string, body []byte, _ objstore.Condition) (objstore.Info, error) {
	return objstore.Info{Key: key, Size: int64(len(body)), ETag: "discarded"}, nil
}

func (discarding) Upload(_ context.Context, key string, _ io.ReadSeeker, size int64, _ objstore.Condition) (objstore.Info, error) {
	return objstore.Info{Key: key, Size: size, ETag: "discarded"}, nil
}

func (discarding) Delete(context.Context, string) error { return nil }
