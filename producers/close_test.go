package producers_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/producers"
)

// gate is a store whose puts of chunks wait until it is opened.
type gate struct {
	objstore.Store
	open chan struct{}

	mu           sync.Mutex
	inside, most int
}

func newGate() *gate { return &gate{Store: mem.New(), open: make(chan struct{})} }

func (g *gate) Put(ctx context.Context, key string, body []byte, c objstore.Condition) (objstore.Info, error) {
	if strings.HasSuffix(key, ".manifest.json") {
		return g.Store.Put(ctx, key, body, c)
	}
	g.mu.Lock()
	g.inside++
	g.most = max(g.most, g.inside)
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		g.inside--
		g.mu.Unlock()
	}()
	select {
	case <-g.open:
		return g.Store.Put(ctx, key, body, c)
	case <-ctx.Done():
		return objstore.Info{}, objstore.ErrUnknown
	}
}

func TestWriteWaitsWhileTooManyChunksAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		w := open(t, g, producers.ChunkRows(10))
		taken := 0
		for _, r := range fill(0, 1000) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := w.Write(ctx, []byte(r))
			cancel()
			if err != nil {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				break
			}
			taken++
		}
		if want := 10 * (producers.InFlight + 1); taken != want {
			t.Fatalf("%d rows were taken, want %d", taken, want)
		}
		close(g.open)
		// The row that was refused is not in; what was taken is, once.
		write(t, w, fill(taken, 100)...)
		if res := closeWriter(t, w); res.Rows != 100 || res.Chunks != 10 {
			t.Fatalf("%+v", res)
		}
		if ids := storedIDs(t, g); len(ids) != 100 {
			t.Fatalf("%d rows are stored", len(ids))
		}
		if g.most != producers.InFlight {
			t.Errorf("%d puts at a time", g.most)
		}
	})
}

func TestARowDoesNotWaitLongerThanTheChunkAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		w := open(t, s, producers.ChunkAge(3*time.Second))
		write(t, w, fill(0, 1)...)
		time.Sleep(2 * time.Second)
		write(t, w, fill(1, 2)...)
		synctest.Wait()
		if n := len(storedIDs(t, s)); n != 0 {
			t.Fatalf("%d rows after 2 s", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(storedIDs(t, s)); n != 2 {
			t.Fatalf("%d rows after 3 s", n)
		}
		write(t, w, fill(2, 3)...) // a new chunk with an age of its own
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := len(storedIDs(t, s)); n != 2 {
			t.Fatalf("%d rows 2 s later", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(storedIDs(t, s)); n != 3 {
			t.Fatalf("%d rows at last", n)
		}
		if res := closeWriter(t, w); res.Chunks != 2 {
			t.Fatalf("%+v", res)
		}
	})
}

func TestWithoutAChunkAgeRowsWaitForTheirChunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		w := open(t, s, producers.ChunkAge(0))
		write(t, w, fill(0, 99)...)
		time.Sleep(time.Hour)
		if n := len(storedIDs(t, s)); n != 0 {
			t.Fatalf("%d rows", n)
		}
		write(t, w, fill(99, 100)...)
		synctest.Wait()
		if n := len(storedIDs(t, s)); n != 100 {
			t.Fatalf("%d rows", n)
		}
		closeWriter(t, w)
	})
}

func TestFlushReturnsWhenWhatWasWrittenIsStored(t *testing.T) {
	s := mem.New()
	w := open(t, s, producers.ChunkRows(10))
	for i := range 5 {
		write(t, w, fill(13*i, 13*i+13)...)
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(storedIDs(t, s)); n != 13*(i+1) {
			t.Fatalf("%d rows after flush %d", n, i)
		}
		if res := w.Stored(); res.Rows != int64(13*(i+1)) {
			t.Fatalf("%+v", res)
		}
	}
	if err := w.Flush(t.Context()); err != nil { // of nothing
		t.Fatal(err)
	}
	if res := closeWriter(t, w); res.Chunks != 10 {
		t.Fatalf("%+v", res)
	}
}

func TestCloseGivesUpWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		w := open(t, g, producers.ChunkRows(10))
		write(t, w, fill(0, 25)...)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		res, err := w.Close(ctx)
		var unstored *producers.UnstoredError
		if !errors.As(err, &unstored) || unstored.Unstored != 25 || res.Rows != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%+v, %v", res, err)
		}
		if err := w.Write(t.Context(), []byte(`{}`)); err == nil {
			t.Fatal("a write after that was taken")
		}
	})
}

func TestAbortKeepsWhatIsStoredAndDropsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		bus := &recorder{}
		w, err := producers.Open(t.Context(), s, bus, quiet, "d", "b", producers.ChunkRows(10))
		if err != nil {
			t.Fatal(err)
		}
		write(t, w, fill(0, 25)...)
		synctest.Wait()
		res, err := w.Abort(t.Context())
		if err != nil || res.Rows != 20 {
			t.Fatalf("%+v, %v", res, err)
		}
		if n := len(storedIDs(t, s)); n != 20 {
			t.Fatalf("%d rows are stored", n)
		}
		if m := manifest(t, s, w.Run()); m.State != catalog.RunFailed || m.Rows != 20 {
			t.Fatalf("%+v", m)
		}
		if e := bus.events[len(bus.events)-1]; e.State != catalog.RunFailed {
			t.Fatalf("%+v", e)
		}
		if err := w.Write(t.Context(), []byte(`{}`)); !errors.Is(err, producers.ErrClosed) {
			t.Fatal(err)
		}
	})
}

func TestAbortEndsWritesThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		w := open(t, g, producers.ChunkRows(1))
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				_ = w.Write(context.Background(), []byte(`{"a":1}`))
			})
		}
		synctest.Wait()
		if _, err := w.Abort(t.Context()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if n := len(storedIDs(t, g)); n != 0 {
			t.Fatalf("%d rows are stored", n)
		}
	})
}

func TestAThousandClosesLeaveNothingRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a bubble fails where goroutines are left
		s := mem.New()
		for i := range 250 {
			w := open(t, s, producers.ChunkRows(3))
			write(t, w, fill(i, i+i%8)...)
			var wg sync.WaitGroup
			results := make([]producers.Result, 4)
			for c := range results {
				wg.Go(func() {
					var err error
					if c == 3 {
						results[c], err = w.Close(context.Background())
					} else {
						results[c], err = w.Close(t.Context())
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			for _, r := range results {
				if diff := cmp.Diff(results[0], r); diff != "" {
					t.Fatal(diff)
				}
			}
			if _, err := w.Abort(t.Context()); err != nil {
				t.Fatal(err)
			}
			if m := manifest(t, s, w.Run()); m.State != catalog.RunCompleted || m.Rows != int64(i%8) {
				t.Fatalf("%+v", m)
			}
		}
	})
}

func TestWritesThatRaceWithCloseAreTakenOrRefused(t *testing.T) {
	for range 20 {
		s := mem.New()
		w := open(t, s, producers.ChunkRows(7), producers.ChunkAge(time.Millisecond))
		var wg sync.WaitGroup
		var mu sync.Mutex
		var taken int64
		for range 8 {
			wg.Go(func() {
				for {
					err := w.Write(context.Background(), []byte(`{"a":1}`))
					if errors.Is(err, producers.ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					taken++
					mu.Unlock()
				}
			})
		}
		if err := w.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		res := closeWriter(t, w)
		wg.Wait()
		if res.Rows != taken || int64(len(storedIDs(t, s))) != taken {
			t.Fatalf("%d rows were taken, the result says %d, %d are stored", taken, res.Rows, len(storedIDs(t, s)))
		}
	}
}
