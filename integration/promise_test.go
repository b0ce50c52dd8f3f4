package integration_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// wrote judges a write that has taken effect.
func (g *guard) wrote(ctx context.Context, key string, before, body []byte, etag string) {
	switch k := dataset.ParseKey(key); k.Kind {
	case dataset.KindCommit:
		g.committed(ctx, key, before, body)
	case dataset.KindHistory:
		if !bytes.Equal(body, g.records[int64(k.Number)]) {
			g.note(key, "these are not the bytes of that generation")
		}
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
func (g *guard) deletes(key string, info objstore.Info) {
	switch k := dataset.ParseKey(key); k.Kind {
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
	if r.Generation != last.Generation+1 || !bytes.Equal(before, g.records[last.Generation]) {
		g.note(key, "generation %d follows %d", r.Generation, last.Generation)
	}
	if g.commits[r.Commit] {
		g.note(key, "two generations have the commit id %s", r.Commit)
	}
	if kept, _ := g.look(ctx, g.batch.HistoryKey(last.Generation)); before != nil && kept == nil {
		g.note(key, "generation %d is committed, and %d is not in history", r.Generation, last.Generation)
	}
	g.files(ctx, key, last, r)
	g.memory(ctx, key, last, r)
	g.record, g.records[r.Generation], g.commits[r.Commit] = r, bytes.Clone(body), true
}

// files judges the files that a record names.
func (g *guard) files(ctx context.Context, key string, last, r catalog.Record) {
	if r.NextFile < last.NextFile {
		g.note(key, "next_file falls from %d to %d", last.NextFile, r.NextFile)
	}
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
		if got, _ := g.look(ctx, g.batch.Dir()+path); sumOf(got) != sum {
			g.note(key, "%s is named, and there are %d bytes that are not it", path, len(got))
		}
	}
	names := r.Names()
	for path := range last.Names() {
		if got, _ := g.look(ctx, g.batch.Dir()+path); !names[path] && got != nil && sumOf(got) == g.named[path] {
			g.note(key, "%s is there, and neither needed nor garbage any more", path)
		}
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
