package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/merger"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/producers"
)

const (
	theDataset = "bench"
	theBatch   = "b"
	// The filter takes a third of the rows.
	theFilter = `{"all":[{"layer":"words","column":"count","op":"gt","value":150},{"layer":"lang","column":"code","op":"eq","value":"en"}]}`
)

// load stores and merges rows of about 1 KB, and two layers of all of them, unless
// they are there.
func load(ctx context.Context, s objstore.Store, rows int) error {
	id := dataset.BatchID{Dataset: theDataset, Batch: theBatch}
	if _, _, err := objstore.ReadAll(ctx, s, marker(rows)); !errors.Is(err, objstore.ErrNotFound) {
		return err
	}
	rnd := rand.New(rand.NewPCG(7, 7))
	words := vocabulary(rnd)
	var ids []string
	w, err := producers.OpenBatch(ctx, s, nil, quiet, id, producers.ChunkRows(5000))
	if err != nil {
		return err
	}
	for n := range rows {
		row := fmt.Sprintf("0193817e-6f2a-7cc1-9b1e-%012x", n)
		ids = append(ids, row)
		if err := w.Write(ctx, json.RawMessage(line(rnd, words, row, n))); err != nil {
			return err
		}
	}
	if _, err := w.Close(ctx); err != nil {
		return err
	}
	for _, a := range []string{"words", "lang"} {
		of := id
		of.Annotator = a
		if err := annotate(ctx, s, rnd, of, ids); err != nil {
			return err
		}
	}
	engine, err := merger.New(s, nil, merger.Config{By: "bench"}, nil, nil)
	if err != nil {
		return err
	}
	for _, a := range []string{"", "words", "lang"} {
		of := id
		of.Annotator = a
		if _, err := engine.Merge(ctx, of); err != nil {
			return err
		}
	}
	_, err = s.Put(ctx, marker(rows), nil, objstore.IfAbsent())
	return err
}

func marker(rows int) string { return fmt.Sprintf("_made/%d", rows) }

// annotate writes an annotation of each row.
func annotate(ctx context.Context, s objstore.Store, rnd *rand.Rand, of dataset.BatchID, ids []string) error {
	w, err := producers.OpenBatch(ctx, s, nil, quiet, of, producers.ChunkRows(20000))
	if err != nil {
		return err
	}
	now := time.Now()
	for _, id := range ids {
		data := fmt.Sprintf(`{"count":%d,"long":%v}`, 100+rnd.IntN(100), rnd.IntN(2) == 0)
		if of.Annotator == "lang" {
			data = fmt.Sprintf(`{"code":"%s","p":0.%d}`, []string{"en", "en", "de"}[rnd.IntN(3)], 1+rnd.IntN(9))
		}
		line, err := dataset.AppendAnnotation(nil, of.Batch, dataset.Row{ID: id}, now, []byte(data), nil)
		if err != nil {
			return err
		}
		if err := w.WriteRow(ctx, dataset.Row{ID: id, Raw: line}); err != nil {
			return err
		}
	}
	_, err = w.Close(ctx)
	return err
}

func vocabulary(rnd *rand.Rand) []string {
	words := make([]string, 5000)
	for i := range words {
		b := make([]byte, 2+rnd.IntN(9))
		for j := range b {
			b[j] = byte('a' + rnd.IntN(26))
		}
		words[i] = string(b)
	}
	words[0], words[1] = "naïve", `\"so\"`
	return words
}

// line is a row as json.dumps writes it without spaces.
func line(rnd *rand.Rand, words []string, id string, n int) string {
	b := fmt.Appendf(nil, `{"id":"%s","n":%d,"score":0.%d,"source":"%s","text":"`, id, n, 1+rnd.IntN(9), words[2+rnd.IntN(30)])
	for size := 600 + rnd.IntN(600); size > 0; {
		w := words[min(rnd.IntN(len(words)), rnd.IntN(len(words)))]
		b = append(append(b, w...), ' ')
		size -= len(w) + 1
	}
	return string(append(b, `","tags":["a","b"],"meta":{"page":7,"ok":true}}`...))
}
