package merger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// Problem is something about an object that is not as it must be, or worth
// knowing.
type Problem struct {
	Key  string `json:"key"`
	What string `json:"what"`
}

// Report is what Verify found. Problems break a promise of the format; notes
// are what a sweep or a merge will see to, and what may interest.
type Report struct {
	Generation int64 `json:"generation"` // that was checked; 0 without a commit record
	Deleted    bool  `json:"deleted,omitempty"`
	Rows       int64 `json:"rows"` // read back from blocks
	Blocks     int   `json:"blocks"`
	Bytes      int64 `json:"bytes"`
	LiveChunks int   `json:"live_chunks"`
	LiveRows   int64 `json:"live_rows"`
	Rejected   int64 `json:"rejected"` // lines of live chunks that will not be merged

	Problems []Problem `json:"problems"`
	Notes    []Problem `json:"notes"`
	More     int       `json:"more,omitempty"` // problems and notes past the first thousand of each

	digests bool // they are missing or wrong; the blocks have all it takes to make them anew
}

const maxFindings = 1000

func (r *Report) find(list *[]Problem, key, format string, args ...any) {
	if len(*list) == maxFindings {
		r.More++
		return
	}
	*list = append(*list, Problem{key, fmt.Sprintf(format, args...)})
}

func (r *Report) problem(key, format string, args ...any) { r.find(&r.Problems, key, format, args...) }
func (r *Report) note(key, format string, args ...any)    { r.find(&r.Notes, key, format, args...) }

// OK tells whether no problem was found.
func (r Report) OK() bool { return len(r.Problems) == 0 }

// verifyTries is how often a batch that changes is looked at again.
const verifyTries = 10

// Verify reads a batch back, whole, and compares it with its commit record. It
// may run beside mergers: what looks like a problem in a batch that has changed
// meanwhile is looked at again. Memory is bounded; the digests of all rows are
// sorted in the system's folder for temporary files.
func Verify(ctx context.Context, s objstore.Store, b dataset.BatchID) (Report, error) {
	return verify(ctx, s, b, os.TempDir(), 64<<20)
}

// Verify is the function Verify with the engine's store, folder and budget.
func (e *Engine) Verify(ctx context.Context, b dataset.BatchID) (Report, error) {
	return verify(ctx, e.store, b, e.cfg.WorkDir, e.cfg.Memory)
}

func verify(ctx context.Context, s objstore.Store, b dataset.BatchID, workDir string, memory int64) (Report, error) {
	if err := b.Check(); err != nil {
		return Report{}, err
	}
	dir, err := os.MkdirTemp(workDir, "verify-*")
	if err != nil {
		return Report{}, fmt.Errorf("verify %s: make a working folder: %w", b, err)
	}
	defer os.RemoveAll(dir)
	for range verifyTries {
		c := &checker{ctx: ctx, store: s, batch: b, dir: dir, memory: memory}
		err := c.check()
		if err != nil {
			return Report{}, fmt.Errorf("verify %s: %w", b, err)
		}
		if c.report.OK() {
			return c.report, nil
		}
		now, err := catalog.ReadHead(ctx, s, b)
		if errors.Is(err, catalog.ErrDamaged) {
			return c.report, nil // and so it says
		}
		if err != nil {
			return Report{}, fmt.Errorf("verify %s: %w", b, err)
		}
		if now.Record.Generation == c.head.Record.Generation && now.Record.Commit == c.head.Record.Commit {
			return c.report, nil
		}
	}
	return Report{}, fmt.Errorf("verify %s: the batch has changed %d times while it was read; try again when it is quieter", b, verifyTries)
}

// checker is one look at a batch.
type checker struct {
	ctx    context.Context
	store  objstore.Store
	batch  dataset.BatchID
	dir    string
	memory int64

	listing catalog.Listing
	head    catalog.Head
	digests *block.Sorter // of all rows; nil where rows are not deduplicated
	report  Report
}

// check looks at everything. It returns an error only where it cannot go on.
func (c *checker) check() (err error) {
	if c.listing, err = catalog.ListLive(c.ctx, c.store, c.batch); err != nil {
		return err
	}
	c.head, err = catalog.ReadHead(c.ctx, c.store, c.batch)
	if errors.Is(err, catalog.ErrDamaged) {
		c.report.problem(c.batch.CommitKey(), "%v", err)
		return c.checkStrays()
	}
	if err != nil {
		return err
	}
	r := c.head.Record
	c.report.Generation, c.report.Deleted = r.Generation, r.Deleted
	switch {
	case r.Deleted:
		c.report.note(c.batch.CommitKey(), "the batch was deleted; what is left of it is not looked at")
		return nil
	case c.head.Foreign:
		c.report.note(c.batch.CommitKey(), "written by another tool: the first merge adopts the merged files that lie there")
		if err := c.checkForeign(); err != nil {
			return err
		}
	case !c.head.Exists():
		if err := c.checkLost(); err != nil {
			return err
		}
	default:
		if err := c.checkRecord(); err != nil {
			return err
		}
	}
	if err := c.checkStrays(); err != nil {
		return err
	}
	return c.checkLive()
}

// checkLost tells a batch of which nothing is merged from one whose record is
// gone.
func (c *checker) checkLost() error {
	_, err := catalog.FindRecord(c.ctx, c.store, c.batch)
	switch {
	case errors.Is(err, catalog.ErrDamaged):
		c.report.problem(c.batch.CommitKey(), "%v", err)
		return nil
	case err == nil:
		c.report.note(c.batch.CommitKey(), "there is no commit record: nothing is merged yet")
	}
	return err
}

// checkRecord looks at what the record names, and at what it does not.
func (c *checker) checkRecord() error {
	r := c.head.Record
	if len(r.DeduplicateOn) > 0 {
		c.digests = block.NewSorter(c.dir, c.memory)
		defer c.digests.Close()
	}
	for _, step := range []func() error{c.checkSums, c.checkBlocks, c.checkDigests, c.checkFiles, c.checkHistory} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// checkSums compares the record with itself.
func (c *checker) checkSums() error {
	r, key := c.head.Record, c.batch.CommitKey()
	var rows, bytes, raw int64
	for _, b := range r.Blocks {
		rows, bytes, raw = rows+b.Rows, bytes+b.Bytes, raw+b.RawBytes
	}
	for _, sum := range []struct {
		name      string
		has, want int64
	}{{"rows", r.Rows, rows}, {"bytes", r.Bytes, bytes}, {"raw_bytes", r.RawBytes, raw}} {
		if sum.has != sum.want {
			c.report.problem(key, "%s is %d, its blocks have %d together", sum.name, sum.has, sum.want)
		}
	}
	for _, n := range []struct {
		name  string
		value int64
	}{{"duplicates", r.Duplicates}, {"rejected", r.Rejected}, {"id_conflicts", r.IDConflicts}} {
		if n.value < 0 {
			c.report.problem(key, "%s is %d", n.name, n.value)
		}
	}
	if r.Generation < 1 {
		c.report.problem(key, "generation is %d; the first one is 1", r.Generation)
	}
	if len(r.Blocks) == 0 {
		c.report.problem(key, "it names no block; a batch without rows has one block without rows")
	}
	if _, _, err := splitBlocks(r); err != nil {
		c.report.problem(key, "%v", err)
	}
	if !slices.IsSortedFunc(r.Blocks, func(a, b catalog.Block) int { return compareText(a.FirstID, b.FirstID) }) {
		c.report.problem(key, "its blocks are not in order of their ids")
	}
	seen := map[string]bool{}
	for _, f := range namedFiles(r) {
		if seen[f] {
			c.report.problem(key, "it names %s twice", f)
		}
		seen[f] = true
		if k := dataset.ParseKey(c.batch.Dir() + f); k.Kind != dataset.KindLegacy && k.Number >= r.NextFile {
			c.report.problem(key, "next_file is %d, but it names %s", r.NextFile, f)
		}
	}
	return nil
}

// namedFiles gives all files of a record, as paths within the batch.
func namedFiles(r catalog.Record) []string {
	var files []string
	for _, b := range r.Blocks {
		files = append(files, b.File)
	}
	for _, d := range r.Digests {
		files = append(files, digestPath(r, d))
	}
	for _, g := range r.Garbage {
		files = append(files, g.File)
	}
	return files
}

func digestPath(r catalog.Record, d catalog.DigestFile) string {
	return r.ID().DigestKey(d.File)[len(r.ID().Dir()):]
}

func compareText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
