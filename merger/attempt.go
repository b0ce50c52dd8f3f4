package merger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// attempt is one try of a merge: what it has seen, and what it makes of it.
type attempt struct {
	*Engine
	batch dataset.BatchID
	start time.Time
	// repair makes a new record in place of one that is lost.
	repair bool

	listing  catalog.Listing
	head     catalog.Head
	live     []catalog.Chunk // not absorbed yet
	leftover []catalog.Chunk // absorbed, and still there
	runs     map[dataset.Run]catalog.RunState
	columns  []string        // in force
	full     []catalog.Block // of the record, that hold rows
	empty    []catalog.Block
	adopted  adoption
	missing  []catalog.Missing // chunks that a lost record has absorbed, it seems

	dir     string
	sources []source
	in      *intake
	known   *digestSet // of the record; nil where its digests are not asked
}

// run makes the attempt.
func (a *attempt) run(ctx context.Context) (Result, error) {
	next, res, err := a.work(ctx)
	switch {
	case err != nil:
		return res, err
	case next == nil && a.head.Exists() && !res.Deleted:
		return res, a.finish(ctx, res, a.leftover)
	case next == nil:
		return res, nil
	}
	if a.head, err = catalog.Commit(ctx, a.store, a.head, *next); err != nil {
		return Result{}, err
	}
	res.Committed = true
	return res, a.finish(ctx, res, append(a.leftover, a.live...))
}

// work does all of a merge but for the commit and what follows it. next is the
// record to commit; nil where there is nothing to.
func (a *attempt) work(ctx context.Context) (next *catalog.Record, res Result, err error) {
	if err := a.look(ctx); err != nil {
		return nil, Result{}, err
	}
	r := a.head.Record
	res = Result{Generation: r.Generation, Commit: r.Commit, Rows: r.Rows, Deleted: r.Deleted}
	if r.Deleted && !a.head.Lost || !a.due() {
		return nil, res, nil
	}
	dir, err := os.MkdirTemp(a.cfg.WorkDir, "merge-*")
	if err != nil {
		return nil, res, fmt.Errorf("make a working folder: %w", err)
	}
	defer os.RemoveAll(dir)
	a.dir = dir
	made, res, err := a.build(ctx)
	if err != nil {
		return nil, Result{}, err
	}
	return &made, res, nil
}

// look takes the state of the batch: chunks first, then the record, then the
// run manifests. In any other order a chunk could be missed, or a list. It does
// not begin a batch anew that has lost its record: the first one would name none
// of the blocks there, and the sweeper would delete them.
func (a *attempt) look(ctx context.Context) (err error) {
	if a.listing, err = catalog.ListLive(ctx, a.store, a.batch); err != nil {
		return err
	}
	if err := a.lookForHead(ctx); err != nil {
		return err
	}
	if a.head.Record.Deleted {
		a.runs = a.head.Record.Runs
		return nil
	}
	for _, c := range a.listing.Chunks {
		if a.head.Record.Absorbed(c) {
			a.leftover = append(a.leftover, c)
		} else {
			a.live = append(a.live, c)
		}
	}
	if a.runs, err = catalog.MergeRuns(ctx, a.store, a.head.Record, a.listing.Runs); err != nil {
		return err
	}
	if err := a.lookForRuns(ctx); err != nil {
		return err
	}
	if a.head.Lost {
		if a.missing, err = catalog.AbsorbMissing(ctx, a.store, a.batch, a.head, a.listing, a.runs); err != nil {
			return err
		}
	}
	a.columns = catalog.InForce(a.runs)
	a.full, a.empty, err = splitBlocks(a.head.Record)
	return err
}

// lookForHead reads the record, or finds what a new one is to be built on and
// which merged files it adopts.
func (a *attempt) lookForHead(ctx context.Context) (err error) {
	var known catalog.Record
	if !a.repair {
		if a.head, err = catalog.FindRecord(ctx, a.store, a.batch); err != nil {
			return err
		}
	}
	if a.repair || a.head.Foreign && !a.head.Bare() {
		if a.head, known, err = catalog.ReadLost(ctx, a.store, a.batch); err != nil {
			return err
		}
	}
	if a.head.Exists() {
		return nil
	}
	if a.adopted, err = findAdoption(ctx, a.store, a.head, known); err != nil {
		return err
	}
	return a.adopted.proveKnown(ctx, a.store)
}

// lookForRuns reads the manifests that the listing did not show although it
// shows chunks of their runs: a listing of several pages is not of one moment.
func (a *attempt) lookForRuns(ctx context.Context) error {
	none := map[dataset.Run]bool{}
	for _, c := range a.live {
		if _, known := a.runs[c.Run]; known || none[c.Run] {
			continue
		}
		m, err := catalog.ReadRun(ctx, a.store, a.batch, c.Run)
		if errors.Is(err, objstore.ErrNotFound) {
			none[c.Run] = true
			continue
		}
		if err != nil {
			return err
		}
		a.runs[c.Run] = catalog.RunState{DeduplicateOn: m.DeduplicateOn, State: m.State}
	}
	return nil
}

// due tells whether there is something to commit.
func (a *attempt) due() bool {
	switch {
	case a.head.Lost || len(a.live) > 0 || len(a.adopted.files) > 0:
		return true
	case !a.head.Exists():
		return false
	case a.converting():
		return true
	}
	return !catalog.SameList(a.columns, a.head.Record.DeduplicateOn) || a.fullPass()
}

// fullPass tells whether the rows of the blocks must be decided again: they
// are to be deduplicated, and were not on these columns.
func (a *attempt) fullPass() bool {
	return len(a.columns) > 0 && a.head.Record.Rows > 0 && !hasDigests(a.head.Record, a.columns)
}

// build reads, decides and writes, and gives the record to commit.
func (a *attempt) build(ctx context.Context) (catalog.Record, Result, error) {
	a.sources = slices.Clone(a.adopted.files)
	for _, c := range a.live {
		a.sources = append(a.sources, chunkSource(c))
	}
	a.in = &intake{
		layer: a.batch.Annotator != "", columns: a.columns, blocks: a.full,
		rows: a.sorter(a.dir, 2), rejects: &rejects{sorter: a.sorter(a.dir, 20)},
	}
	defer a.in.close()
	defer func() {
		if a.known != nil {
			a.known.close()
		}
	}()
	if err := a.read(ctx); err != nil {
		return catalog.Record{}, Result{}, err
	}
	segments := Plan(a.full, a.in.news, a.limits())
	if a.fullPass() || a.converting() {
		segments = PlanAll(a.full)
	}
	verdict, err := a.decide(ctx, segments)
	if err != nil {
		return catalog.Record{}, Result{}, err
	}
	if verdict != nil {
		defer verdict.close()
	}
	return a.write(ctx, segments, verdict)
}

func (a *attempt) limits() Limits { return Limits{Rows: a.cfg.BlockRows, Bytes: a.cfg.BlockBytes} }

// read takes the lines of all sources.
func (a *attempt) read(ctx context.Context) error {
	n := a.adopted.parquet()
	workers := a.workers(len(a.sources) - n)
	a.in.open(workers)
	for i, s := range a.sources[:n] {
		add := a.in.hands[0].addAnew(s, uint32(i))
		if err := adoptParquet(ctx, a.store, a.dir, s, add, func(done, total int64) { a.progress("adopt", done, total) }); err != nil {
			return err
		}
		a.metrics.Bytes.WithLabelValues("chunks_read").Add(float64(s.size))
	}
	f := fetcher{store: a.store, sources: a.sources[n:], ahead: a.cfg.Concurrency}
	var mu sync.Mutex
	done := int64(0)
	err := f.each(ctx, workers, func(worker, i int, b body) error {
		if err := a.in.hands[worker].take(f.sources[i], uint32(n+i), b); err != nil {
			return err
		}
		a.metrics.Bytes.WithLabelValues("chunks_read").Add(float64(f.sources[i].size))
		mu.Lock()
		defer mu.Unlock()
		done++
		a.progress("read", done, int64(len(f.sources)))
		return ctx.Err()
	})
	a.in.done()
	return err
}

// workers is how many goroutines do a kind of work that has n parts.
func (a *attempt) workers(n int) int {
	return max(min(a.cfg.Concurrency, runtime.GOMAXPROCS(0), maxWorkers, n), 1)
}

// maxWorkers bounds memory on machines of many cores.
const maxWorkers = 8

// decide says which rows stay where rows are deduplicated; without, the id
// rule is kept while rows are written.
func (a *attempt) decide(ctx context.Context, segments []Segment) (*verdict, error) {
	if len(a.columns) == 0 {
		return nil, nil
	}
	a.progress("decide", 0, a.in.rows.Len())
	if a.fullPass() {
		scan := a.scan(ctx, blocksOf(segments))
		defer scan.close()
		return a.decideAll(scan)
	}
	scan := a.scan(ctx, hitBlocks(a.in.news))
	defer scan.close()
	var err error
	if a.known, err = a.openDigestSet(ctx); err != nil {
		return nil, err
	}
	return decideNew(a.dir, a.cfg.Memory, a.columns, a.in.rows, &blockIDs{scan: scan}, a.known)
}

// decideAll decides about merged rows too.
func (a *attempt) decideAll(scan *blockScan) (*verdict, error) {
	ranks := a.sorter(a.dir, 5)
	defer ranks.Close()
	if err := a.rankMerged(scan, ranks); err != nil {
		return nil, err
	}
	var key []byte
	err := eachKey(a.in.rows, a.columns, func(_ uint64, row []byte, d dataset.Digest) error {
		key = rankKeyOf(key[:0], row)
		return ranks.Add(key, d[:])
	})
	if err != nil {
		return nil, fmt.Errorf("sort rows: %w", err)
	}
	n := ranks.Len()
	sorted, err := ranks.Sort()
	if err != nil {
		return nil, fmt.Errorf("sort rows: %w", err)
	}
	return decide(a.dir, max(a.cfg.Memory/20, 1), sorted, n, noIDs{}, noDigests{})
}

// rankMerged lets the rows of the blocks be decided too.
func (a *attempt) rankMerged(scan *blockScan, ranks *block.Sorter) error {
	var key []byte
	for {
		r, err := scan.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		d, err := dataset.DigestOf(r.Row, a.columns)
		if err != nil {
			return fmt.Errorf("%s: %w", a.batch.BlockKey(a.full[r.block].File), err)
		}
		key = appendRankKey(key[:0], r.ID, r.place())
		if err := ranks.Add(key, d[:]); err != nil {
			return fmt.Errorf("sort rows: %w", err)
		}
	}
}

func (a *attempt) scan(ctx context.Context, which []int) *blockScan {
	return &blockScan{ctx: ctx, store: a.store, batch: a.batch, blocks: a.full, which: which,
		metric: func(n int64) { a.metrics.Bytes.WithLabelValues("blocks_read").Add(float64(n)) }}
}

// absorb notes what the next record has taken in.
func (a *attempt) absorb(next *catalog.Record) {
	next.Runs = maps.Clone(a.runs)
	for _, c := range a.live {
		_, known := a.runs[c.Run]
		next.Absorb(c, known)
	}
}
