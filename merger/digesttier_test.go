package merger_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

func digestFiles(rows ...int64) []catalog.DigestFile {
	var out []catalog.DigestFile
	for _, n := range rows {
		out = append(out, catalog.DigestFile{Rows: n})
	}
	return out
}

func TestWhichDigestFilesAreJoined(t *testing.T) {
	for _, c := range []struct {
		name    string
		files   []catalog.DigestFile
		added   int64
		join    []int
		withNew bool
	}{
		{"the first", nil, 10, nil, false},
		{"seven of a size stay", digestFiles(10, 10, 10, 10, 10, 10), 10, nil, false},
		{"eight are joined", digestFiles(10, 10, 10, 10, 10, 10, 10), 10, []int{0, 1, 2, 3, 4, 5, 6}, true},
		{"the large one stays", digestFiles(1000, 10, 10, 10, 10, 10, 10, 10), 10, []int{1, 2, 3, 4, 5, 6, 7}, true},
		{"all at once where that is enough", digestFiles(80, 80, 80, 80, 80, 80, 80, 10, 10, 10, 10, 10, 10, 10), 10,
			[]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}, true},
		{"a large new one stays alone", digestFiles(10, 10, 10, 10, 10, 10, 10, 10), 1000, []int{0, 1, 2, 3, 4, 5, 6, 7}, false},
		{"empty ones go along", digestFiles(0, 0, 10), 100, []int{0, 1}, false},
	} {
		join, withNew := merger.PlanDigests(c.files, c.added)
		if !slices.Equal(join, c.join) || withNew != c.withNew {
			t.Errorf("%s: %v, %v", c.name, join, withNew)
		}
	}
}

func TestDigestFilesStayFewAndDigestsAreSeldomWrittenAgain(t *testing.T) {
	for _, c := range []struct {
		name string
		base int64
		size func(*rand.Rand) int64
	}{
		{"one", 0, func(*rand.Rand) int64 { return 1 }},
		{"a hundred each", 0, func(*rand.Rand) int64 { return 100 }},
		{"a hundred each into a million", 1_000_000, func(*rand.Rand) int64 { return 100 }},
		{"1 to 1000", 0, func(r *rand.Rand) int64 { return 1 + r.Int64N(1000) }},
		{"any size", 0, func(r *rand.Rand) int64 { return 1 << r.IntN(20) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 3))
			var files []int64
			if c.base > 0 {
				files = append(files, c.base)
			}
			total, added, written, most := c.base, int64(0), int64(0), 0
			for range 5000 {
				n := c.size(rng)
				join, withNew := merger.PlanDigests(digestFiles(files...), n)
				var left []int64
				sum := int64(0)
				for i, f := range files {
					if slices.Contains(join, i) {
						sum += f
					} else {
						left = append(left, f)
					}
				}
				if withNew {
					sum += n
				} else {
					left = append(left, n)
					written += n
				}
				if sum > 0 {
					left = append(left, sum)
					written += sum
				}
				files, total, added = left, total+n, added+n
				most = max(most, len(files))
				if sum = 0; len(files) > 0 {
					for _, f := range files {
						sum += f
					}
				}
				if sum != total {
					t.Fatalf("%d digests of %d", sum, total)
				}
			}
			if bound := 2 + math.Log(float64(total))/math.Log(8./7); float64(most) > bound {
				t.Errorf("%d files, more than %.0f", most, bound)
			}
			if each := float64(written) / float64(added); each > 1+math.Log(float64(total))/math.Log(8) {
				t.Errorf("each digest was written %.1f times", each)
			}
			t.Logf("%.2f writes a digest, at most %d files", float64(written)/float64(added), most)
		})
	}
}

// tiered is a batch deduplicated on k with several digest files.
func tiered(t testing.TB, s objstore.Store, e *merger.Engine, merges int) (want []string) {
	t.Helper()
	putRun(t, s, theBatch, "aaaaaa", []string{"k"}, catalog.RunOpen)
	for i := range merges {
		n := 1 + i%3
		var lines []string
		for j := range n {
			id := fmt.Sprintf("%04d-%d", i, j)
			want = append(want, row(id, id, i+1))
			lines = append(lines, row(id, id, i+1), row(id+"x", fmt.Sprintf("%04d-0", i/2), i+2))
		}
		putChunk(t, s, theBatch, "aaaaaa", i, lines...)
		merge(t, e, theBatch)
	}
	return want
}

func TestDuplicatesAreFoundAcrossDigestFiles(t *testing.T) {
	for _, cache := range []int64{0, 1} {
		s := mem.New()
		cfg := config(t, newClock())
		cfg.DigestCache = cache
		e := engine(t, s, cfg)
		want := tiered(t, s, e, 60)
		if diff := cmp.Diff(want, merged(t, s, theBatch)); diff != "" {
			t.Fatal(diff)
		}
		r := record(t, s, theBatch)
		if n := len(r.Digests); n < 3 || n > 20 {
			t.Errorf("%d digest files", n)
		}
		healthy(t, s, theBatch)
		// Another process, which has nothing at hand.
		putChunk(t, s, theBatch, "aaaaaa", 1000, row("z1", "0000-0", 1), row("z2", "0059-0", 1), row("z3", "new", 1))
		res := merge(t, engine(t, s, config(t, newClock())), theBatch)
		if res.Added != 1 || res.Duplicates != 2 {
			t.Errorf("%+v", res)
		}
		if left, err := os.ReadDir(cfg.WorkDir); err != nil || len(left) > 0 {
			t.Errorf("left in the working folder: %v, %v", left, err)
		}
	}
}

func TestAShorterListDecidesAgainOverAllDigestFiles(t *testing.T) {
	s := mem.New()
	e := engine(t, s, config(t, newClock()))
	putRun(t, s, theBatch, "aaaaaa", []string{"k", "l"}, catalog.RunOpen)
	two := func(id, k, l string, at int) string {
		return fmt.Sprintf(`{"id":%q,"_created_at":%d,"k":%q,"l":%q}`, id, at, k, l)
	}
	for i := range 12 {
		putChunk(t, s, theBatch, "aaaaaa", i, two(fmt.Sprintf("%03d", i), fmt.Sprint(i%4), fmt.Sprint(i), 100-i))
		merge(t, e, theBatch)
	}
	if r := record(t, s, theBatch); r.Rows != 12 || len(r.Digests) < 2 {
		t.Fatalf("%+v", r)
	}
	putRun(t, s, theBatch, "bbbbbb", []string{"k"}, catalog.RunOpen)
	res := merge(t, e, theBatch)
	r := record(t, s, theBatch)
	if !res.FullPass || r.Rows != 4 || len(r.Digests) != 1 || r.Digests[0].Rows != 4 {
		t.Fatalf("%+v, %+v", res, r)
	}
	healthy(t, s, theBatch)
	putChunk(t, s, theBatch, "bbbbbb", 0, two("new", "3", "?", 1), two("other", "5", "?", 1))
	if res := merge(t, e, theBatch); res.Added != 1 || res.FullPass {
		t.Errorf("%+v", res)
	}
	healthy(t, s, theBatch)
}

// A digest file that is not what the record says, whichever of several, ends a
// merge before it can let a duplicate in.
func TestADamagedDigestFileOfSeveralEndsTheMerge(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, s objstore.Store, key string){
		"missing": func(t *testing.T, s objstore.Store, key string) {
			if err := s.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		},
		"a bit": func(t *testing.T, s objstore.Store, key string) {
			b := []byte(get(t, s, key))
			b[len(b)-1] ^= 1
			put(t, s, key, string(b))
		},
		"short": func(t *testing.T, s objstore.Store, key string) {
			b := get(t, s, key)
			put(t, s, key, b[:len(b)-16])
		},
		"empty": func(t *testing.T, s objstore.Store, key string) { put(t, s, key, "") },
		"long": func(t *testing.T, s objstore.Store, key string) {
			put(t, s, key, get(t, s, key)+strings.Repeat("\xff", 16))
		},
	} {
		for _, cache := range []int64{0, 1} {
			s := mem.New()
			tiered(t, s, engine(t, s, config(t, newClock())), 20)
			before := record(t, s, theBatch)
			if len(before.Digests) < 3 {
				t.Fatal(len(before.Digests))
			}
			for _, d := range before.Digests {
				key := theBatch.DigestKey(d.File)
				body := get(t, s, key)
				harm(t, s, key)
				putChunk(t, s, theBatch, "aaaaaa", 900, row("z", "0000-0", 1))
				cfg := config(t, newClock())
				cfg.DigestCache = cache
				_, err := engine(t, s, cfg).Merge(t.Context(), theBatch)
				if !errors.Is(err, block.ErrDamaged) || !strings.Contains(err.Error(), d.File) {
					t.Errorf("%s of %d rows: %v", name, d.Rows, err)
				}
				put(t, s, key, body)
			}
			if now := record(t, s, theBatch); now.Generation != before.Generation {
				t.Errorf("%s: a merge has committed", name)
			}
		}
	}
}

// digestReads counts how often digest files are read.
type digestReads struct {
	objstore.Store
	n int
}

func (d *digestReads) Get(ctx context.Context, key string, s objstore.Span) (io.ReadCloser, objstore.Info, error) {
	if strings.Contains(key, "/_digests/") {
		d.n++
	}
	return d.Store.Get(ctx, key, s)
}

func TestDigestFilesAreReadOnceByAnEngineAndNotAtAllByTheirWriter(t *testing.T) {
	s := &digestReads{Store: mem.New()}
	tiered(t, s, engine(t, s, config(t, newClock())), 30)
	if s.n != 0 {
		t.Errorf("%d reads of files that the engine wrote", s.n)
	}
	files := len(record(t, s, theBatch).Digests)
	other := engine(t, s, config(t, newClock()))
	for i := range 3 {
		putChunk(t, s, theBatch, "aaaaaa", 100+i, row(fmt.Sprint("z", i), "0000-0", 1))
		merge(t, other, theBatch)
	}
	if s.n != files {
		t.Errorf("%d reads of %d files in three merges", s.n, files)
	}
	cfg := config(t, newClock())
	cfg.DigestCache = 1 // small files stay in memory all the same
	putChunk(t, s, theBatch, "aaaaaa", 200, row("zz", "0000-0", 1))
	merge(t, engine(t, s, cfg), theBatch)
	if s.n != 2*files {
		t.Errorf("%d reads", s.n)
	}
}

// Files that do not fit, and those that are not in memory.
func TestLargeDigestFilesAreHeldOnDiskOrReadFromTheStore(t *testing.T) {
	const rows = 12_000 // 192 KB of digests
	var lines []string
	for i := range rows {
		lines = append(lines, row(fmt.Sprintf("%06d", i), fmt.Sprint("k", i), 1))
	}
	inner := mem.New()
	putRun(t, inner, theBatch, "aaaaaa", []string{"k"}, catalog.RunOpen)
	putChunk(t, inner, theBatch, "aaaaaa", 0, lines...)
	cfg := config(t, newClock())
	cfg.BlockRows, cfg.Memory = 50_000, 16<<20
	writer := engine(t, inner, cfg)
	merge(t, writer, theBatch)
	for n, c := range []struct {
		name  string
		e     func(s objstore.Store) *merger.Engine
		reads int // in two merges
	}{
		{"held", func(s objstore.Store) *merger.Engine { return engine(t, s, cfg) }, 2},
		{"too large", func(s objstore.Store) *merger.Engine {
			cfg := cfg
			cfg.DigestCache = 100 << 10
			return engine(t, s, cfg)
		}, 3},
		{"changed on disk", func(s objstore.Store) *merger.Engine {
			e := engine(t, s, cfg)
			putChunk(t, inner, theBatch, "aaaaaa", 50, row("y", "k1", 1))
			merge(t, e, theBatch)
			if e.HarmHeldDigests() == 0 {
				t.Error("nothing is held on disk")
			}
			return e
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &digestReads{Store: inner}
			e := c.e(s)
			for i := range 2 {
				var more []string
				for k := range 40 {
					more = append(more, row(fmt.Sprintf("z%d%d%d", n, i, k), fmt.Sprint("k", k*300+n), 1))
				}
				putChunk(t, inner, theBatch, "aaaaaa", 1+10*n+i, append(more, row(fmt.Sprint("new", n, i), fmt.Sprint("new", n, i), 1))...)
				res := merge(t, e, theBatch)
				if res.Added != 1 || res.Duplicates != 40 {
					t.Errorf("%+v", res)
				}
				if again := c.reads == 0 && i == 0; (res.Attempts > 1) != again {
					t.Errorf("%d attempts", res.Attempts)
				}
			}
			if c.reads > 0 && s.n > c.reads+3*n {
				t.Errorf("%d reads", s.n)
			}
			healthy(t, inner, theBatch)
		})
	}
}
