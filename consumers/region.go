package consumers

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/objstore"
)

// region is a part of the store that the reconciler goes through page by page,
// with the part of the catalog that stands for it.
type region struct {
	prefix  string
	filters []string // of the catalog bucket
	after   string   // the last key that was compared; "" at the start of a pass
}

func wholeRegion() *region { return &region{filters: []string{">"}} }

func datasetRegion(d string) *region {
	return &region{prefix: d + "/", filters: bus.KeysOf(d)}
}

// batchRegions are the folders of a batch: one, or two for a layer.
func batchRegions(b dataset.BatchID) []*region {
	filters := []string{bus.ChunksOf(b), bus.BatchKey(b)}
	regions := []*region{{prefix: b.LiveDir(), filters: filters}}
	if b.Dir() != b.LiveDir() {
		regions = append(regions, &region{prefix: b.Dir(), filters: filters})
	}
	return regions
}

// known is an entry of the catalog, as it was before the store was listed.
type known struct {
	object string // the key of the object that it stands for
	key    bus.CatalogKey
	entry  bus.Entry
}

// view is a page of a region beside what the catalog says of the same keys:
// both are complete from the region's position up to and with end.
type view struct {
	objects []objstore.Info
	known   map[string]known  // by object key
	recent  []dataset.BatchID // batches of which a chunk was entered lately
	end     string            // "" means to the end of the region
}

// look reads the next page of a region, the catalog first: an entry that was
// read before the listing and whose object the listing lacks is out of date.
func (g *region) look(ctx context.Context, kv KV, s objstore.Store, page int, since time.Time) (view, error) {
	entries, cut, recent, err := g.entries(ctx, kv, 2*page, since)
	if err != nil {
		return view{}, fmt.Errorf("read the catalog: %w", err)
	}
	v := view{known: make(map[string]known, len(entries)), recent: recent}
	for info, err := range s.List(ctx, g.prefix, g.after) {
		if err != nil {
			return view{}, fmt.Errorf("list %q after %q: %w", g.prefix, g.after, err)
		}
		v.objects = append(v.objects, info)
		if len(v.objects) == page {
			v.end = info.Key
			break
		}
	}
	if cut && (v.end == "" || entries[len(entries)-1].object < v.end) {
		v.end = entries[len(entries)-1].object
	}
	if v.end != "" {
		v.objects = slices.DeleteFunc(v.objects, func(i objstore.Info) bool { return i.Key > v.end })
	}
	for _, e := range entries {
		if v.end == "" || e.object <= v.end {
			v.known[e.object] = e
		}
	}
	return v, nil
}

// entries gives the first entries of the catalog, in the order of their
// objects, after the region's position. It holds a bounded number of them,
// however many there are; cut says that there are more. recent are
// the batches of which a chunk was entered since then.
func (g *region) entries(ctx context.Context, kv KV, most int, since time.Time) (out []known, cut bool, recent []dataset.BatchID, err error) {
	lately := map[dataset.BatchID]bool{}
	shrink := func() {
		slices.SortFunc(out, func(a, b known) int { return strings.Compare(a.object, b.object) })
		// A key that changed meanwhile comes twice, the later revision last.
		out = compactLast(out)
		if len(out) > most {
			clear(out[most:])
			out, cut = out[:most], true
		}
	}
	for e, err := range lists(ctx, kv, g.filters) {
		if err != nil {
			return nil, false, nil, err
		}
		k, err := bus.ParseCatalogKey(e.Key)
		if err != nil {
			continue // another kind of key
		}
		if k.Run != "" && e.Created.After(since) && len(lately) < maxHot {
			lately[k.Batch] = true
		}
		object := k.Object()
		if object <= g.after || !strings.HasPrefix(object, g.prefix) {
			continue
		}
		if out = append(out, known{object, k, e}); len(out) >= 2*most {
			shrink()
		}
	}
	shrink()
	for b := range lately {
		recent = append(recent, b)
	}
	return out, cut, recent, nil
}

// compactLast keeps the latest revision of each object in sorted entries.
func compactLast(s []known) []known {
	out := s[:0]
	for _, e := range s {
		if n := len(out); n > 0 && out[n-1].object == e.object {
			if e.entry.Revision > out[n-1].entry.Revision {
				out[n-1] = e
			}
			continue
		}
		out = append(out, e)
	}
	return out
}

func lists(ctx context.Context, kv KV, filters []string) iter.Seq2[bus.Entry, error] {
	return func(yield func(bus.Entry, error) bool) {
		for _, f := range filters {
			for e, err := range kv.List(ctx, f) {
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
	}
}

// advance moves the position past a view; done says that a pass has ended.
func (g *region) advance(v view) (done bool) {
	g.after = v.end
	return v.end == ""
}
