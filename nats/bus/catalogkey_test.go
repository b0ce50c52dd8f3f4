package bus_test

import (
	"testing"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
)

func TestCatalogKeysHaveAlwaysThreeNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{bus.BatchKey(dataset.BatchID{Dataset: "d", Batch: "b.1"}), "batch.d.b=2E1.="},
		{bus.BatchKey(dataset.BatchID{Dataset: "d", Batch: "b", Annotator: "a"}), "batch.d.b.a"},
		{bus.ChunkKey(dataset.BatchID{Dataset: "d", Batch: "b"}, "a1b2c3", 17), "chunk.d.b.=.a1b2c3.17"},
		{bus.ChunksOf(dataset.BatchID{Dataset: "d", Batch: "b"}), "chunk.d.b.=.>"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func FuzzCatalogKey(f *testing.F) {
	f.Add("batch.d.b.=")
	f.Add("chunk.d.b=2E1.a.a1b2c3.17")
	f.Add("chunk.d.b.=.a1b2c3.007")
	f.Add("chunk.d.b.=.a1b2c3.99999999999")
	f.Add("whole")
	f.Add("batch....")
	f.Fuzz(func(t *testing.T, s string) {
		k, err := bus.ParseCatalogKey(s)
		if err != nil {
			return
		}
		back := bus.BatchKey(k.Batch)
		if k.Run != "" {
			back = bus.ChunkKey(k.Batch, k.Run, k.Number)
		}
		if back != s {
			t.Errorf("%q became %+v, which is %q", s, k, back)
		}
		if got := dataset.ParseKey(k.Object()); got.Batch != k.Batch || got.Run != k.Run {
			t.Errorf("%q stands for %q, which is %+v", s, k.Object(), got)
		}
	})
}
