package producers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/objstore/objtest"
	"github.com/siltstone-data/siltstone/producers"
)

const anyChunk = "d/b/*_chunk_*"

// chosenRun lets a writer draw the run id 616161.
func chosenRun() producers.Option {
	return producers.Random(bytes.NewReader(slices.Repeat([]byte("a"), 1<<16)))
}

func TestAPutThatFailsIsTriedAgainWithTheSameBytes(t *testing.T) {
	down := errors.New("503 slow down")
	absorb := func(s objstore.Store) func() {
		return func() { _ = s.Delete(context.Background(), batch.ChunkKey("616161", 1)) }
	}
	for name, rules := range map[string]func(s objstore.Store) []*objtest.Rule{
		"fails without effect": func(objstore.Store) []*objtest.Rule {
			return one(objtest.On(objtest.Put).Key(anyChunk).Times(5).Fail(down))
		},
		"fails after it was stored": func(objstore.Store) []*objtest.Rule {
			return one(objtest.On(objtest.Put).Key(anyChunk).Times(2).FailAfter(down))
		},
		"stored, the answer lost": func(objstore.Store) []*objtest.Rule {
			return one(objtest.On(objtest.Put).Key(anyChunk).Times(3).LoseAnswer())
		},
		"stored late": func(objstore.Store) []*objtest.Rule { return one(objtest.On(objtest.Put).Key(anyChunk).Nth(2).Late(3)) },
		"each second put fails": func(objstore.Store) []*objtest.Rule {
			return one(objtest.On(objtest.Put).Key("*00001*").Times(3).Fail(down))
		},
		"stored, the answer lost, and not readable at once": func(objstore.Store) []*objtest.Rule {
			return []*objtest.Rule{
				objtest.On(objtest.Put).Key(anyChunk).Nth(2).LoseAnswer(),
				objtest.On(objtest.Get).Key(anyChunk).Nth(1).Fail(down),
				objtest.On(objtest.Get).Key(anyChunk).Nth(1).Cut(7),
			}
		},
		"stored, the answer lost, then merged and deleted": func(s objstore.Store) []*objtest.Rule {
			return []*objtest.Rule{
				objtest.On(objtest.Put).Key("*00001*").Nth(1).LoseAnswer(),
				objtest.On(objtest.Get).Key("*00001*").Nth(1).Before(absorb(s)),
			}
		},
		"the end of the run is not written at first": func(objstore.Store) []*objtest.Rule {
			return one(objtest.On(objtest.Put).Key("*.manifest.json").Nth(2).Times(4).Fail(down))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := mem.New()
				s := objtest.NewFaulty(t, inner, rules(inner)...)
				w := open(t, s, chosenRun(), producers.ChunkRows(10))
				write(t, w, fill(0, 45)...)
				res := closeWriter(t, w)
				s.Flush()
				if res.Rows != 45 || res.Chunks != 5 {
					t.Fatalf("%+v", res)
				}
				chunks := stored(t, inner, batch)
				for i := range 5 {
					if diff := cmp.Diff(fill(10*i, min(10*i+10, 45)), chunks[batch.ChunkKey(w.Run(), i)]); diff != "" {
						t.Errorf("chunk %d: %s", i, diff)
					}
				}
				if m := manifest(t, inner, w.Run()); m.State != catalog.RunCompleted || m.Rows != 45 || m.Chunks != 5 {
					t.Errorf("%+v", m)
				}
			})
		})
	}
}

func one(r *objtest.Rule) []*objtest.Rule { return []*objtest.Rule{r} }

func TestANameThatIsTakenAtTheFirstTryIsAnError(t *testing.T) {
	s := mem.New()
	key := batch.ChunkKey("616161", 0)
	// Even the same bytes: a first put cannot have been stored before.
	if _, err := s.Put(t.Context(), key, []byte(fill(0, 1)[0]+"\n"), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	w := open(t, s, chosenRun(), producers.ChunkRows(1))
	write(t, w, fill(0, 1)...)
	res, err := w.Close(t.Context())
	var unstored *producers.UnstoredError
	if !errors.Is(err, producers.ErrRunTaken) || !errors.As(err, &unstored) || unstored.Stored != 0 || unstored.Unstored != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	if m := manifest(t, s, w.Run()); m.State != catalog.RunFailed || m.Rows != 0 {
		t.Fatalf("%+v", m)
	}
}

func TestANameThatSomebodyElseTookBeforeARetryIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := mem.New()
		other := func() {
			_, _ = inner.Put(context.Background(), batch.ChunkKey("616161", 0), []byte("{}\n"), objstore.Condition{})
		}
		s := objtest.NewFaulty(t, inner,
			objtest.On(objtest.Put).Key(anyChunk).Nth(1).Fail(objstore.ErrUnknown),
			objtest.On(objtest.Put).Key(anyChunk).Nth(1).Before(other))
		w := open(t, s, chosenRun())
		write(t, w, fill(0, 1)...)
		if _, err := w.Close(t.Context()); !errors.Is(err, producers.ErrRunTaken) {
			t.Fatal(err)
		}
		if got := stored(t, inner, batch)[batch.ChunkKey(w.Run(), 0)]; !slices.Equal(got, []string{"{}"}) {
			t.Fatalf("the other's chunk is now %q", got)
		}
	})
}

func TestAStoreThatStaysDownFailsTheWriterAndItSaysWhatIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := mem.New()
		f := objtest.NewFaulty(t, inner,
			objtest.On(objtest.Put).Key("*_chunk_00002*").Fail(errors.New("disk is full")),
			objtest.On(objtest.Put).Key("*_chunk_00003*").Fail(errors.New("disk is full")))
		var ids []string
		w := open(t, f, chosenRun(), producers.ChunkRows(10), producers.RetryFor(10*time.Second),
			producers.OnStored(func(stored []string) { ids = append(ids, stored...) }))
		write(t, w, fill(0, 45)...)
		began := time.Now()
		err := w.Flush(t.Context())
		var unstored *producers.UnstoredError
		if !errors.As(err, &unstored) {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("it took %s to give up", took)
		}
		if err := w.Write(t.Context(), []byte(`{}`)); !errors.As(err, &unstored) {
			t.Errorf("a write after the failure: %v", err)
		}
		res, err := w.Close(t.Context())
		if !errors.As(err, &unstored) {
			t.Fatal(err)
		}
		if unstored.Stored != 25 || unstored.Unstored != 20 || !slices.Equal(unstored.Chunks, []int{2, 3}) {
			t.Errorf("%+v", unstored)
		}
		for _, part := range []string{"d/b", "run 616161", "25 rows are stored, 20 are not", "failed chunks: 2 3", "disk is full"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
		if res.Rows != 25 || len(ids) != 25 || len(storedIDs(t, inner)) != 25 {
			t.Errorf("%+v, %d ids told", res, len(ids))
		}
		if m := manifest(t, inner, w.Run()); m.State != catalog.RunFailed || m.Rows != 25 {
			t.Errorf("%+v", m)
		}
	})
}

func TestARunThatCannotBeClosedIsAnErrorThatSaysTheRowsAreSafe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := mem.New()
		s := objtest.NewFaulty(t, inner, objtest.On(objtest.Put).Key("*.manifest.json").Nth(2).Times(1000).Fail(errors.New("disk is full")))
		w := open(t, s)
		write(t, w, fill(0, 3)...)
		res, err := w.Close(t.Context())
		if err == nil || !strings.Contains(err.Error(), "3 rows of d/b are stored") || res.Rows != 3 {
			t.Fatalf("%+v, %v", res, err)
		}
	})
}

// TestCrashesAndLostAnswersNeverLoseAToldRow runs writers that die and start
// again at any call: what OnStored told is stored, once, and nothing else is
// stored but what was written.
func TestCrashesAndLostAnswersNeverLoseAToldRow(t *testing.T) {
	fired := map[string]int{}
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			sched := objtest.NewSchedule(seed, objtest.ScheduleConfig{Chances: objtest.Chances{
				CrashBefore: 0.02, CrashAfter: 0.02, LostAnswer: 0.1, LateEffect: 0.05, ReadError: 0.2, Pause: 0.05,
			}})
			told := map[string]int{}
			const rows = 60
			for g := range 3 {
				name := fmt.Sprintf("writer %d", g)
				sched.Go(name, func(ctx context.Context, s objstore.Store) error {
					w, err := producers.Open(ctx, s, nil, quiet, "d", "b",
						producers.ChunkRows(7), producers.RetryFor(time.Second), producers.Name(name),
						producers.OnStored(func(ids []string) {
							for _, id := range ids {
								told[id]++
							}
						}))
					if err != nil {
						return err
					}
					for _, r := range fill(g*1000, g*1000+rows) {
						if err := w.Write(ctx, []byte(r)); err != nil {
							break
						}
					}
					res, err := w.Close(ctx)
					if err == nil && res.Rows != rows {
						t.Errorf("seed %d: %s: %d rows without an error", seed, name, res.Rows)
					}
					return nil
				})
			}
			if err := sched.Run(t.Context()); err != nil {
				t.Fatalf("%v\n%s", err, sched.Trace())
			}
			for fault, n := range sched.Fired() {
				fired[fault] += n
			}
			ids := storedIDs(t, sched.Store())
			for id, n := range told {
				if n != 1 || ids[id] != 1 {
					t.Errorf("seed %d: row %s was told %d times and is stored %d times\n%s", seed, id, n, ids[id], sched.Trace())
				}
			}
			for id, n := range ids {
				if n != 1 {
					t.Errorf("seed %d: row %s is stored %d times\n%s", seed, id, n, sched.Trace())
				}
			}
		})
	}
	for _, f := range []string{"CrashBefore", "CrashAfter", "LostAnswer", "LateEffect", "ReadError", "Pause"} {
		if fired[f] == 0 {
			t.Errorf("no %s happened", f)
		}
	}
}
