package dataset_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/dataset"
)

func TestEveryKeyReadsBackAsWhatItNames(t *testing.T) {
	for _, b := range oddBatches() {
		for _, n := range []int{0, 7, 99999, 123456, 999999999} {
			const run = dataset.Run("a1b2c3")
			chunk := fmt.Sprintf("a1b2c3_chunk_%05d.jsonl", n)
			for key, want := range map[string]dataset.Key{
				b.ChunkKey(run, n):                  {Kind: dataset.KindChunk, Run: run, Number: n},
				b.RunKey(run):                       {Kind: dataset.KindRun, Run: run},
				b.CommitKey():                       {Kind: dataset.KindCommit},
				b.HistoryKey(int64(n)):              {Kind: dataset.KindHistory, Number: n},
				b.BlockKey(dataset.BlockFile(n)):    {Kind: dataset.KindBlock, Number: n},
				b.BlockKey("merged.parquet"):        {Kind: dataset.KindLegacy},
				b.DigestKey(dataset.DigestFile(n)):  {Kind: dataset.KindDigest, Number: n},
				b.RejectedKey(chunk):                {Kind: dataset.KindRejected, Run: run, Number: n},
				b.IndexKey(n):                       {Kind: dataset.KindIndex, Number: n},
				b.IndexMetaKey():                    {Kind: dataset.KindMeta},
				b.BlockKey("merged_00003.parquet"):  {Kind: dataset.KindBlock, Number: 3},
				b.BlockKey("merged_12345.jsonl.gz"): {Kind: dataset.KindBlock, Number: 12345},
			} {
				want.Batch = b
				want.File = key[strings.LastIndexByte(key, '/')+1:]
				if d := cmp.Diff(want, dataset.ParseKey(key)); d != "" {
					t.Fatalf("%s: %s", key, d)
				}
			}
		}
	}
}

func TestKeysAreThoseOfTheFormat(t *testing.T) {
	b := dataset.BatchID{Dataset: "D", Batch: "B"}
	a := dataset.BatchID{Dataset: "D", Batch: "B", Annotator: "A"}
	for got, want := range map[string]string{
		b.RunKey("a1b2c3"):                        "D/B/a1b2c3.manifest.json",
		b.ChunkKey("a1b2c3", 0):                   "D/B/a1b2c3_chunk_00000.jsonl",
		b.BlockKey(dataset.BlockFile(0)):          "D/B/merged_00000.jsonl.gz",
		b.CommitKey():                             "D/B/manifest.yaml",
		b.HistoryKey(17):                          "D/B/_history/00000017.yaml",
		b.RejectedKey("a1b2c3_chunk_00000.jsonl"): "D/B/_rejected/a1b2c3_chunk_00000.jsonl",
		b.DigestKey(dataset.DigestFile(0)):        "D/B/_digests/00000.bin",
		b.IndexKey(5):                             "D/_index/B/00005.parquet",
		b.IndexMetaKey():                          "D/_index/B.meta.json",
		a.ChunkKey("a1b2c3", 0):                   "D/annotations/A/.temp/B/a1b2c3_chunk_00000.jsonl",
		a.CommitKey():                             "D/annotations/A/B/manifest.yaml",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestAKeyThatIsNoneOfOursIsUnknown(t *testing.T) {
	for _, key := range []string{
		"", "/", "D", "D/", "D/B", "D/B/", "//", "D//manifest.yaml", "/D/B/manifest.yaml", "D/B/manifest.yaml/", "D/B/C/manifest.yaml",
		"D/B/a1b2c3_chunk_0000.jsonl", "D/B/A1B2C3_chunk_00000.jsonl", "D/B/a1b2c3_chunk_0000000000.jsonl", "D/B/a1b2c3_chunk_00000.jsonl.gz",
		"D/B/a1b2c3_chunk_00000.jsonl\n", "D/B/xa1b2c3_chunk_00000.jsonl", "D/B/merged_00000.jsonl", "D/B/merged_0.jsonl.gz",
		"D/B/manifest.yml", "D/B/_history/17.yaml", "D/B/_history/00000017.yaml/x", "D/B/_other/00000.bin", "D/B/_digests/0.bin",
		"_locks/x/manifest.yaml", "D/_index/manifest.yaml", "D/.temp/manifest.yaml", "D/_migration/status.json",
		"D/annotations/manifest.yaml", "D/annotations/A/manifest.yaml", "D/annotations/A/.temp/.lock", "D/annotations/A/.temp/_rejected/chunk_00000.jsonl",
		"D/annotations/A/chunk_00000.jsonl", "D/B/chunk_00000.jsonl", "D/annotations/A.x/.temp/chunk_00000.jsonl", "D/annotations/A/.temp/chunk_x.jsonl",
		"D/annotations/A/B/a1b2c3_chunk_00000.jsonl", "D/annotations/A/.temp/B/merged_00000.jsonl.gz", "D/annotations/A/.temp/B/manifest.yaml",
		"D/annotations/A.x/B/manifest.yaml", "D/annotations/A/.temp/B/_rejected/a1b2c3_chunk_00000.jsonl",
		"D/annotations/a1b2c3_chunk_00000.jsonl", "D/ B/manifest.yaml", "D/B\x00/manifest.yaml", "D\xff/B/manifest.yaml",
		"nai\u0308ve/B/manifest.yaml", "D/../manifest.yaml", "./B/manifest.yaml", "D/_index/B/5.parquet", "D/_index/.meta.json",
		"D/annotations/_index/B/00005.parquet",
	} {
		if k := dataset.ParseKey(key); k != (dataset.Key{}) {
			t.Errorf("%q is %+v", key, k)
		}
	}
}

func TestAChunkOfManyBatchesIsKnownByItsLayer(t *testing.T) {
	for _, name := range []string{"chunk_00000.jsonl", "chunk_7.jsonl", "chunk_123456789.jsonl"} {
		want := dataset.Key{Kind: dataset.KindOldChunk, Batch: dataset.BatchID{Dataset: "D", Annotator: "A"}, File: name}
		if d := cmp.Diff(want, dataset.ParseKey(dataset.OldChunkDir("D", "A")+name)); d != "" {
			t.Error(d)
		}
	}
}

func TestARunIDIsSixHexDigits(t *testing.T) {
	for run, ok := range map[dataset.Run]bool{
		"a1b2c3": true, "000000": true, "": false, "a1b2c": false, "a1b2c3d": false, "A1B2C3": false, "g1b2c3": false, "a1b2c3\n": false,
	} {
		if err := run.Check(); (err == nil) != ok {
			t.Errorf("%q: %v", run, err)
		}
	}
}
