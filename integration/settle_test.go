package integration_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/objstore"
)

// settle merges what is left, without faults, and checks the end.
func (s *simulation) settle() error {
	if err := s.mend(); err != nil {
		return err
	}
	for range 2 {
		if _, err := s.engine("last", s.store(), s.sched.Now).Merge(s.t.Context(), simBatch); err != nil {
			return err
		}
	}
	if err := s.settled(s.due()); err != nil {
		return err
	}
	// A sweep leaves nothing that nobody needs, and the merge after it forgets
	// what it took away.
	if err := s.sweepAll(time.Hour); err != nil {
		return err
	}
	if err := s.swept(); err != nil {
		return err
	}
	last := s.ledger.add(simRow{"zz", `{"id":"zz","k":99,"m":99,"v":1.0}`})
	if err := s.write(s.t.Context(), "last writer", s.store(), nil, []simRow{last}); err != nil {
		return err
	}
	if _, err := s.engine("last of all", s.store(), s.after(2*time.Hour)).Merge(s.t.Context(), simBatch); err != nil {
		return err
	}
	if err := s.settled(s.due()); err != nil {
		return err
	}
	for r, i := s.guard.present(), 0; i < len(r.Garbage) && s.policy.HistoryMaxAge == 0; i++ {
		if g := r.Garbage[i]; !g.Since.Equal(r.CommittedAt) {
			return fmt.Errorf("%s is gone, and still garbage", g.File)
		}
	}
	if err := s.sweepAll(3 * time.Hour); err != nil {
		return err
	}
	if err := s.swept(); err != nil {
		return err
	}
	return s.converted()
}

// converted converts what is parquet, which must leave the same rows in lines.
func (s *simulation) converted() error {
	if !withParquet(s.seed) {
		return nil
	}
	ctx := s.t.Context()
	before, err := s.read(ctx, s.store(), s.options(), nil)
	if err != nil {
		return err
	}
	if _, err := s.engine("last converter", s.store(), s.after(4*time.Hour)).Convert(ctx, simBatch, nil); err != nil {
		return err
	}
	for _, b := range s.guard.present().Blocks {
		if dataset.IsParquetBlock(b.File) {
			return fmt.Errorf("%s is still there after a conversion", b.File)
		}
	}
	after, err := s.read(ctx, s.store(), s.options(), nil)
	if err == nil && listOf(after) != listOf(before) {
		err = fmt.Errorf("a conversion made %s of %s", listOf(after), listOf(before))
	}
	return err
}

func (s *simulation) after(d time.Duration) func() time.Time {
	return func() time.Time { return s.sched.Now().Add(d) }
}

func (s *simulation) sweepAll(after time.Duration) error {
	by := committer("last sweeper after "+after.String(), s.after(after))
	for range 3 {
		if _, err := catalog.Sweep(s.t.Context(), s.store(), simBatch, s.policy, by); err != nil {
			return err
		}
	}
	return nil
}

// settled checks a batch that has been merged.
func (s *simulation) settled(d due) error {
	ctx, store := s.t.Context(), s.store()
	listing, err := catalog.ListLive(ctx, store, simBatch)
	if err != nil {
		return err
	}
	if len(listing.Chunks) > 0 {
		return fmt.Errorf("there are chunks after the last merge: %v", listing.Chunks)
	}
	h, err := catalog.ReadHead(ctx, store, simBatch)
	if err != nil || !h.Exists() {
		return err
	}
	if !s.events.told(h.Record.Commit) {
		return fmt.Errorf("nobody announced generation %d", h.Record.Generation)
	}
	o := s.options()
	o.Live = false
	seen, err := s.read(ctx, store, o, nil)
	if err != nil {
		return err
	}
	if err := s.ledger.check(d, seen, nil); err != nil {
		return err
	}
	if want := s.inForce(listing.Runs); !catalog.SameList(want, h.Record.DeduplicateOn) {
		return fmt.Errorf("rows are deduplicated on %v, the manifests say %v", h.Record.DeduplicateOn, want)
	}
	if err := s.ledger.twins(h.Record.DeduplicateOn, seen); err != nil {
		return err
	}
	rejected, err := s.rejected()
	if err != nil {
		return err
	}
	if lines := s.ledger.untold(d, seen, rejected); len(lines) > 0 {
		return fmt.Errorf("neither merged nor rejected: %v", lines)
	}
	rep, err := merger.Verify(ctx, store, simBatch)
	if err == nil && !rep.OK() {
		err = fmt.Errorf("verify: %+v", rep.Problems)
	}
	if err != nil {
		return err
	}
	return s.indexed(h.Record)
}

// inForce is the list that the manifests make.
func (s *simulation) inForce(runs []dataset.Run) []string {
	var lists [][]string
	for _, r := range runs {
		m, err := catalog.ReadRun(s.t.Context(), s.store(), simBatch, r)
		if err != nil {
			s.t.Fatal(err)
		}
		lists = append(lists, m.DeduplicateOn)
	}
	in := intersection(lists)
	slices.Sort(in)
	return in
}

// rejected gives all rejected lines.
func (s *simulation) rejected() (lines []string, err error) {
	for info, err := range s.store().List(s.t.Context(), simBatch.RejectedKey(""), "") {
		if err != nil {
			return nil, err
		}
		body, _, err := objstore.ReadAll(s.t.Context(), s.store(), info.Key)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(body)) {
			var r merger.Reject
			if err := json.Unmarshal([]byte(line), &r); err != nil || r.Raw == nil {
				return nil, fmt.Errorf("%s: %w in %s", info.Key, err, line)
			}
			lines = append(lines, *r.Raw)
		}
	}
	return lines, nil
}

// swept checks which files a sweep has left.
func (s *simulation) swept() error {
	var have []string
	for info, err := range s.store().List(s.t.Context(), simBatch.Dir(), "") {
		if err != nil {
			return err
		}
		if k := dataset.ParseKey(info.Key); k.Kind == dataset.KindBlock || k.Kind == dataset.KindDigest {
			have = append(have, info.Key[len(simBatch.Dir()):])
		}
	}
	r := s.guard.present()
	if r.Generation == 0 {
		return nil // nothing is swept before there is a record
	}
	if s.policy.HistoryMaxAge == 0 {
		if diff := cmp.Diff(slices.Sorted(maps.Keys(needs(r))), slices.Sorted(slices.Values(have))); diff != "" {
			return fmt.Errorf("after a sweep (-needed +there):\n%s", diff)
		}
		return nil
	}
	if s.guard.losses > 0 {
		return nil // a record that is lost keeps nothing
	}
	for gen := range r.Generation {
		past, err := s.guard.recordOf(gen)
		if err != nil {
			return err
		}
		for _, b := range past.Blocks {
			if !slices.Contains(have, b.File) {
				return fmt.Errorf("history keeps generation %d, and its block %s is gone", gen, b.File)
			}
		}
	}
	return nil
}
