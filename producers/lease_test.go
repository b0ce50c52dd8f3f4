package producers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/objstore/objtest"
	"github.com/siltstone-data/siltstone/producers"
)

var leaseKey = dataset.LeaseKey("d", "A")

// slowly annotates a row in eight seconds, unless it is cancelled.
func slowly(cancelled *atomic.Int64) producers.Func {
	return func(ctx context.Context, row dataset.Row) (dataset.Annotation, error) {
		select {
		case <-time.After(8 * time.Second):
			return sized(ctx, row)
		case <-ctx.Done():
			cancelled.Add(1)
			return dataset.Annotation{}, context.Cause(ctx)
		}
	}
}

func TestASecondWorkerIsRefusedAndToldWhoHasTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		fillBatch(t, s, "b", 0, 40)
		l := &locks{}
		began := time.Now()
		time.AfterFunc(15*time.Second, func() {
			_, err := annotate(t.Context(), t, s, l, sized, producers.Name("second"))
			var held *producers.LeaseHeldError
			if !errors.Is(err, producers.ErrLeaseHeld) || !errors.As(err, &held) || held.Owner != "first" || held.Until.Before(time.Now()) {
				t.Errorf("%v", err)
			}
		})
		var waited producers.AnnotateResult
		var waitErr error
		done := make(chan struct{})
		time.AfterFunc(16*time.Second, func() {
			waited, waitErr = annotate(t.Context(), t, s, l, sized, producers.LeaseWait(time.Hour))
			close(done)
		})
		var cancelled atomic.Int64
		res, err := annotate(t.Context(), t, s, l, slowly(&cancelled), producers.Concurrency(1), producers.Name("first"))
		if err != nil || res.Rows != 40 || time.Since(began) < 320*time.Second {
			t.Fatalf("%+v, %v", res, err)
		}
		<-done
		if waitErr != nil || waited.Rows != 0 {
			t.Fatalf("%+v, %v", waited, waitErr)
		}
		if l.renewed < 320/60 || l.renewed > 320/60+3 {
			t.Errorf("%d renewals in 320 s", l.renewed)
		}
	})
}

func TestALostLeaseCancelsEveryCallAndWhatIsDoneIsStored(t *testing.T) {
	for name, lose := range map[string]func(l *locks, s *objtest.Faulty){
		"taken by another":  func(l *locks, s *objtest.Faulty) { l.take(leaseKey) },
		"given up by force": func(l *locks, s *objtest.Faulty) { l.drop(leaseKey) },
		"the store gone":    func(l *locks, s *objtest.Faulty) { l.setRenew(func(*heldLease) error { return errStore }) },
		"no answer": func(l *locks, s *objtest.Faulty) {
			l.setRenew(func(h *heldLease) error { <-time.After(h.Remaining() - time.Second); return errStore })
		},
		"stood still": func(l *locks, s *objtest.Faulty) {
			l.setRenew(func(h *heldLease) error { <-time.After(time.Hour); return errStore })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := objtest.NewFaulty(t, mem.New())
				fillBatch(t, s, "b", 0, 100)
				l := &locks{}
				var cancelled atomic.Int64
				var end time.Time
				time.AfterFunc(25*time.Second, func() {
					l.mu.Lock()
					end = l.held[leaseKey].end
					l.mu.Unlock()
					lose(l, s)
				})
				res, err := annotate(t.Context(), t, s, l, slowly(&cancelled), producers.Concurrency(4))
				if !errors.Is(err, producers.ErrLeaseLost) || res.Stopped != producers.StoppedByLease || cancelled.Load() != 4 || res.Failed != 0 {
					t.Fatalf("%+v, %v, %d cancelled", res, err, cancelled.Load())
				}
				silent := name != "taken by another" && name != "given up by force"
				if errors.Is(err, producers.ErrNotRenewed) != silent {
					t.Errorf("the causes are not told apart: %v", err)
				}
				if name == "the store gone" && !time.Now().Before(end) {
					t.Errorf("it stopped %s after the end of the lease", time.Since(end))
				}
				<-time.After(2 * time.Hour) // renewals that go on
				if n := len(notes(t, s, true)); int64(n) != res.Rows || res.Rows == 0 || res.Rows%4 != 0 || res.Unstored != 0 {
					t.Errorf("%d annotations, %+v", n, res)
				}
			})
		})
	}
}

func TestARenewalThatFailsForAWhileIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		fillBatch(t, s, "b", 0, 40)
		tries := 0
		l := &locks{renew: func(*heldLease) error {
			if tries++; tries%4 != 0 {
				return errStore
			}
			return nil
		}}
		var cancelled atomic.Int64
		res, err := annotate(t.Context(), t, s, l, slowly(&cancelled), producers.Concurrency(1))
		if err != nil || res.Rows != 40 || cancelled.Load() != 0 {
			t.Fatalf("%+v, %v", res, err)
		}
	})
}

func TestTheLeaseIsRenewedBetweenAManifestAndItsFirstChunk(t *testing.T) {
	s := mem.New()
	fillBatch(t, s, "b1", 0, 10)
	fillBatch(t, s, "b2", 0, 10)
	var mu sync.Mutex
	var order []string
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, what)
	}
	l := &locks{renew: func(*heldLease) error { note("renew"); return nil }}
	w := seen{s, func(key string) {
		if k := dataset.ParseKey(key); k.Batch.Annotator != "" {
			note(k.Batch.Batch + " " + string(k.Kind))
		}
	}}
	if _, err := annotate(t.Context(), t, w, l, sized, producers.Concurrency(1), producers.ChunkRows(1)); err != nil {
		t.Fatal(err)
	}
	for _, b := range []string{"b1", "b2"} {
		manifest, renewed, chunk := -1, -1, -1
		for i, what := range order {
			switch {
			case what == b+" run" && manifest < 0:
				manifest = i
			case what == "renew" && manifest >= 0 && renewed < 0:
				renewed = i
			case what == b+" chunk" && chunk < 0:
				chunk = i
			}
		}
		if manifest < 0 || renewed < manifest || chunk < renewed {
			t.Errorf("%s: %v", b, order)
		}
	}
}

// seen tells of puts.
type seen struct {
	objstore.Store
	put func(key string)
}

func (s seen) Put(ctx context.Context, key string, body []byte, c objstore.Condition) (objstore.Info, error) {
	s.put(key)
	return s.Store.Put(ctx, key, body, c)
}

// slotGate holds back the puts of chunks of layers while it is shut.
type slotGate struct {
	objstore.Store
	shut   atomic.Bool
	waits  atomic.Int64
	opened chan struct{}
}

func (g *slotGate) Put(ctx context.Context, key string, body []byte, c objstore.Condition) (objstore.Info, error) {
	if k := dataset.ParseKey(key); g.shut.Load() && k.Batch.Annotator != "" {
		g.waits.Add(1)
		<-g.opened // whatever ctx says: it is on its way
		ctx = context.WithoutCancel(ctx)
	}
	return g.Store.Put(ctx, key, body, c)
}

// TestWhatAHolderStoresAfterItsLeaseChangesNoView lets a holder stand still with
// chunks on their way, as a stopped process does, while another annotates all.
func TestWhatAHolderStoresAfterItsLeaseChangesNoView(t *testing.T) {
	for name, between := range map[string]func(t *testing.T, s objstore.Store){
		"live":   func(*testing.T, objstore.Store) {},
		"merged": func(t *testing.T, s objstore.Store) { merge(t, s, layerOf("b")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := mem.New()
				fillBatch(t, inner, "b", 0, 100)
				g := &slotGate{Store: inner, opened: make(chan struct{})}
				l := &locks{}
				by := func(who string) producers.Func {
					return func(ctx context.Context, row dataset.Row) (dataset.Annotation, error) {
						if row.ID == rowID(30) && who == "first" {
							g.shut.Store(true)
						}
						return dataset.Annotation{Data: map[string]string{"by": who}}, nil
					}
				}
				stale := make(chan error)
				var staleRes producers.AnnotateResult
				go func() {
					var err error
					staleRes, err = annotate(t.Context(), t, g, l, by("first"), producers.Concurrency(1), producers.ChunkRows(3))
					stale <- err
				}()
				synctest.Wait()
				if g.waits.Load() == 0 {
					t.Fatal("nothing is on its way")
				}
				l.drop(leaseKey) // it has ended

				res, err := annotate(t.Context(), t, inner, l, by("second"))
				if err != nil {
					t.Fatal(err)
				}
				between(t, inner)
				before := notes(t, inner, true)
				if len(before) != 100 || res.Rows < 60 {
					t.Fatalf("%d annotations, %+v", len(before), res)
				}
				close(g.opened)
				if err := <-stale; !errors.Is(err, producers.ErrLeaseLost) {
					t.Fatalf("%+v, %v", staleRes, err)
				}
				for range 2 {
					after := notes(t, inner, true)
					if fmt.Sprint(after) != fmt.Sprint(before) {
						t.Fatalf("a late chunk changed a view: %v, was %v", after, before)
					}
					merge(t, inner, layerOf("b"))
				}
				if name == "live" && staleRes.Rows+res.Rows != 100 {
					t.Errorf("%+v and %+v", staleRes, res)
				}
			})
		})
	}
}

// TestAnOpenRunIsSealedWhateverGoesWrong lets the sealing fail at each of its
// calls, and be done again by the next holder.
func TestAnOpenRunIsSealedWhateverGoesWrong(t *testing.T) {
	// An open run with chunks 0, 2 and 3 stored, 1 on its way.
	leave := func(t *testing.T) (*mem.Store, dataset.Run) {
		s := mem.New()
		fillBatch(t, s, "b", 0, 20)
		annotator := "A"
		m, err := catalog.ClaimRun(t.Context(), s, catalog.RunManifest{Dataset: "d", Batch: "b", Annotator: &annotator, State: catalog.RunOpen, Token: 1}, strings.NewReader("abc"))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 2, 3} {
			line := fmt.Sprintf(`{"id":"r%06d","_batch":"b","data":{"by":"first"},"metadata":{}}`+"\n", n)
			if _, err := s.Put(t.Context(), layerOf("b").ChunkKey(m.Run, n), []byte(line), objstore.IfAbsent()); err != nil {
				t.Fatal(err)
			}
		}
		return s, m.Run
	}
	crashed := errors.New("crashed")
	verbs := map[string]func(*objtest.Rule) *objtest.Rule{
		"before it":   func(r *objtest.Rule) *objtest.Rule { return r.Fail(crashed) },
		"after it":    func(r *objtest.Rule) *objtest.Rule { return r.FailAfter(crashed) },
		"answer lost": func(r *objtest.Rule) *objtest.Rule { return r.LoseAnswer() },
	}
	for name, fault := range verbs {
		for n := 1; n <= 6; n++ { // chunk 1, chunks 4 to 7, the manifest
			t.Run(fmt.Sprintf("%s %d", name, n), func(t *testing.T) {
				inner, run := leave(t)
				s := objtest.NewFaulty(t, inner, fault(objtest.On(objtest.Put).Key("d/annotations/A/.temp/b/"+string(run)+"*").Nth(n)))
				// With RetryFor so short one failure ends the worker, as a crash would.
				opts := []producers.AnnotateOption{producers.RetryFor(0)}
				_, err := annotate(t.Context(), t, s, &locks{}, sized, opts...)
				if err != nil {
					if _, err = annotate(t.Context(), t, inner, &locks{}, sized, opts...); err != nil {
						t.Fatal(err)
					}
				}
				for late := range 8 {
					if _, err := inner.Put(t.Context(), layerOf("b").ChunkKey(run, late), []byte(`{"id":"r000019","_batch":"b","data":{"by":"late"}}`+"\n"), objstore.IfAbsent()); !errors.Is(err, objstore.ErrLost) {
						t.Errorf("chunk %d could still be stored: %v", late, err)
					}
				}
				m, err := catalog.ReadRun(t.Context(), inner, layerOf("b"), run)
				if err != nil || m.State != catalog.RunFailed || m.Chunks != 3 {
					t.Errorf("%+v, %v", m, err)
				}
				got := notes(t, inner, true)
				if len(got) != 20 || got["b r000002"] != `by="first";` {
					t.Errorf("%d: %v", len(got), got)
				}
			})
		}
	}
}

func TestRunsThatAreNotUnderALeaseAreLeftAlone(t *testing.T) {
	s := mem.New()
	fillBatch(t, s, "b", 0, 20)
	// As a merge does that splits a chunk of an older tool.
	w, err := producers.OpenBatch(t.Context(), s, nil, quiet, layerOf("b"), producers.ChunkRows(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := annotate(t.Context(), t, s, &locks{}, sized); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteRow(t.Context(), dataset.Row{ID: "x", Raw: []byte(`{"id":"x","_batch":"b","data":{}}`)}); err != nil {
		t.Fatal(err)
	}
	if res, err := w.Close(t.Context()); err != nil || res.Rows != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
}
