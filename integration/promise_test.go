package integration_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// wrote judges a write that has taken effect.
func (g *guard) wrote(ctx context.Context, key string, before, body []byte, etag string) {
	k := dataset.ParseKey(key)
	if k.Kind != dataset.KindOldChunk && k.Batch != g.batch {
		return // of another batch, which has a guard of its own
	}
	switch k.Kind {
	case dataset.KindCommit:
		g.committed(ctx, key, before, body)
	case dataset.KindHistory:
		if !bytes.Equal(body, g.records[int64(k.Number)]) && (k.Number != 0 || !bytes.Equal(body, g.torn)) {
			g.note(key, "these are not the bytes of that generation")
		}
	case dataset.KindOldChunk:
		if len(body) == 0 {
			g.splits(ctx, key)
			return
		}
		g.old[key] = strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
	case dataset.KindBlock, dataset.KindDigest:
		if before != nil {
			g.note(key, "it is written over")
		}
	case dataset.KindChunk:
		if before != nil && !bytes.Equal(before, body) {
			g.note(key, "the chunk's name stands for other bytes")
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(string(body), "\n"), "\n") {
			g.lines[line] = append(g.lines[line], catalog.Chunk{Batch: g.batch, Run: k.Run, Number: k.Number, ETag: etag})
		}
	case dataset.KindRun:
		if b, a := parseRun(before), parseRun(body); before != nil && (b.Writer != a.Writer || b.State != catalog.RunOpen && !bytes.Equal(before, body)) {
			g.note(key, "%s writes the manifest of %s, which is %s", a.Writer, b.Writer, b.State)
		}
	case dataset.KindRejected:
		for line := range strings.Lines(string(before)) {
			if !strings.Contains(string(body), line) {
				g.note(key, "a rejected line is gone: %s", line)
			}
		}
	}
}

func parseRun(raw []byte) (m catalog.RunManifest) {
	_ = json.Unmarshal(raw, &m)
	return m
}

// deletes judges the deletion of an object that is there.
func (g *guard) deletes(ctx context.Context, key string, info objstore.Info) {
	k := dataset.ParseKey(key)
	if k.Kind != dataset.KindOldChunk && k.Batch != g.batch {
		return
	}
	switch k.Kind {
	case dataset.KindIndex, dataset.KindMeta: // derived: whoever misses them does without
	case dataset.KindOldChunk:
		g.splits(ctx, key)
	case dataset.KindLegacy:
		if !g.record.Names()[k.File] {
			g.note(key, "generation %d has not adopted it, and it is deleted", g.record.Generation)
		}
	case dataset.KindChunk:
		if !g.record.Absorbed(catalog.Chunk{Batch: g.batch, Run: k.Run, Number: k.Number, ETag: info.ETag}) {
			g.note(key, "a chunk is deleted that generation %d has not absorbed", g.record.Generation)
		}
	case dataset.KindBlock, dataset.KindDigest:
		path := key[len(g.batch.Dir()):]
		if needs(g.record)[path] != "" {
			g.note(key, "generation %d needs it, and it is deleted", g.record.Generation)
		}
		if k.Number >= g.record.NextFile {
			g.note(key, "deleted, and a commit may still name it: next_file is %d", g.record.NextFile)
		}
	default:
		g.note(key, "nobody may delete it")
	}
}

// committed judges a record that follows another.
func (g *guard) committed(ctx context.Context, key string, before, body []byte) {
	var r catalog.Record
	if err := json.Unmarshal(body, &r); err != nil {
		g.note(key, "no record: %v", err)
		return
	}
	last := g.record
	if g.torn != nil {
		g.restored(ctx, key, last, r, before)
		g.remember(r, body)
		return
	}
	if r.Generation != last.Generation+1 || !bytes.Equal(before, g.records[last.Generation]) {
		g.note(key, "generation %d follows %d", r.Generation, last.Generation)
	}
	if g.commits[r.Commit] {
		g.note(key, "two generations have the commit id %s", r.Commit)
	}
	if kept, _ := g.look(ctx, g.batch.HistoryKey(last.Generation)); before != nil && kept == nil {
		g.note(key, "generation %d is committed, and %d is not in history", r.Generation, last.Generation)
	}
	g.count(last, r)
	g.files(ctx, key, last, r)
	g.memory(ctx, key, last, r)
	g.remember(r, body)
}

// count notes what a commit has done, so that a simulation can tell that it
// simulates anything.
func (g *guard) count(last, r catalog.Record) {
	has := needs(r)
	gone := 0
	for _, d := range last.Digests {
		if has["_digests/"+d.File] == "" {
			gone++
		}
	}
	parquet := func(r catalog.Record) bool {
		return slices.ContainsFunc(r.Blocks, func(b catalog.Block) bool { return dataset.IsParquetBlock(b.File) })
	}
	for what, yes := range map[string]bool{
		"digest files joined":        gone > 0 && len(last.Digests) > gone,
		"deduplicated on less":       len(last.DeduplicateOn) > len(r.DeduplicateOn) && len(r.DeduplicateOn) > 0,
		"blocks kept":                slices.ContainsFunc(last.Blocks, func(b catalog.Block) bool { return has[b.File] != "" && b.Rows > 0 }),
		"gone over to parquet":       parquet(r) && !parquet(last) && last.Generation > 0,
		"converted to lines":         parquet(last) && !parquet(r),
		"merged.parquet was adopted": slices.ContainsFunc(r.Garbage, func(f catalog.Garbage) bool { return f.File == "merged.parquet" }) && last.Generation == 0,
	} {
		if yes {
			g.saw[what]++
		}
	}
}

func (g *guard) remember(r catalog.Record, body []byte) {
	g.record, g.records[r.Generation], g.commits[r.Commit] = r, bytes.Clone(body), true
	g.past = append(g.past, generation{r.Generation, r.CommittedAt})
}

// restored judges a record in place of one that was lost. It may know no more
// than the one before that; of what lies there it has to make the best.
func (g *guard) restored(ctx context.Context, key string, lost, r catalog.Record, before []byte) {
	if !bytes.Equal(before, g.torn) {
		g.note(key, "generation %d follows something else than the lost record", r.Generation)
	}
	if r.Generation <= lost.Generation {
		g.note(key, "generation %d follows the lost generation %d", r.Generation, lost.Generation)
	}
	known, err := g.parse(lost.Generation - 1)
	if err != nil {
		g.note(key, "%v", err)
	}
	g.names(ctx, key, known, r)
	g.memory(ctx, key, known, r)
	g.torn = nil
	g.saw["record made anew"]++
}

// files judges the files that a record names.
func (g *guard) files(ctx context.Context, key string, last, r catalog.Record) {
	if r.NextFile < last.NextFile {
		g.note(key, "next_file falls from %d to %d", last.NextFile, r.NextFile)
	}
	g.names(ctx, key, last, r)
	names := r.Names()
	for path := range last.Names() {
		if got, _ := g.look(ctx, g.batch.Dir()+path); !names[path] && got != nil && sumOf(got) == g.named[path] {
			g.note(key, "%s is there, and neither needed nor garbage any more", path)
		}
	}
}

// names judges the files that a record cannot do without.
func (g *guard) names(ctx context.Context, key string, last, r catalog.Record) {
	had, has := needs(last), needs(r)
	for path, sum := range has {
		k := dataset.ParseKey(g.batch.Dir() + path)
		if k.Number >= r.NextFile {
			g.note(key, "next_file is %d, and %s is named", r.NextFile, path)
		}
		if had[path] != sum && k.Number < last.NextFile {
			g.note(key, "%s is named anew although next_file was %d", path, last.NextFile)
		}
		if was, ok := g.named[path]; ok && was != sum {
			g.note(key, "%s is named, and an earlier record names another file so", path)
		}
		g.named[path] = sum
		got, _ := g.look(ctx, g.batch.Dir()+path)
		if sumOf(got) != sum && !g.harmed[path] {
			g.note(key, "%s is named, and there are %d bytes that are not it", path, len(got))
		}
		g.bodies[path] = got
	}
}

// memory judges what a record knows of chunks.
func (g *guard) memory(ctx context.Context, key string, last, r catalog.Record) {
	for run, st := range last.Runs {
		for n := range 20 {
			if st.Absorbed.Has(n) && !r.Runs[run].Absorbed.Has(n) {
				g.note(key, "chunk %d of %s is forgotten", n, run)
			}
		}
	}
	for name, etag := range last.Chunks {
		if r.Chunks[name] != etag {
			g.note(key, "chunk %s is forgotten", name)
		}
	}
	for run := range r.Runs {
		if m, _ := g.look(ctx, g.batch.RunKey(run)); m == nil {
			g.note(key, "run %s is known, and has no manifest", run)
		}
	}
}

// needs gives the files that a record cannot do without, with their SHA-256.
func needs(r catalog.Record) map[string]string {
	out := map[string]string{}
	for _, b := range r.Blocks {
		out[b.File] = b.SHA256
	}
	for _, d := range r.Digests {
		out["_digests/"+d.File] = d.SHA256
	}
	return out
}

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// splits judges that an older chunk of a layer is emptied, or deleted: each of its lines that
// is a row of the batch must lie in a chunk of its own batch, or in a block.
func (g *guard) splits(ctx context.Context, key string) {
	for _, line := range g.old[key] {
		if strings.Contains(line, `"_batch":"`+g.batch.Batch+`"`) && len(g.lines[line]) == 0 {
			g.note(key, "it is emptied, and nobody has stored %s", line)
		}
	}
	delete(g.old, key)
}
