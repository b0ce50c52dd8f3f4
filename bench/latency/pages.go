package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/siltstone-data/siltstone"
	"github.com/siltstone-data/siltstone/producers"
)

// pages measures pages of 50 rows at random places, by their HTTP answers.
func pages(ctx context.Context, up *server, tool *siltstone.Tool) error {
	heading("A page of 50 rows in id order at a random place, over HTTP")
	for _, rows := range []int{10_000, 1_000_000} {
		ds := fmt.Sprintf("rows-%d", rows)
		if err := fill(ctx, tool, ds, rows); err != nil {
			return err
		}
		if err := settled(ctx, up, ds, rows); err != nil {
			return err
		}
		places, err := cursors(ctx, up, ds)
		if err != nil {
			return err
		}
		var took []time.Duration
		for range 500 {
			start := time.Now()
			p, err := page(ctx, up, ds, 50, places[rand.IntN(len(places))])
			if err != nil {
				return err
			}
			if took = append(took, time.Since(start)); len(p.Rows) == 0 {
				return fmt.Errorf("an empty page of %s", ds)
			}
		}
		quantiles(fmt.Sprintf("%d rows", rows), took)
	}
	return nil
}

const text = "Sediment is a naturally occurring material that is broken down by processes of weathering and erosion, and is subsequently transported by the action of wind, water, or ice or by the force of gravity acting on the particles. "

func fill(ctx context.Context, tool *siltstone.Tool, ds string, rows int) error {
	w, err := tool.Writer(ctx, ds, "b", producers.ChunkRows(5000))
	if err != nil {
		return err
	}
	for i := range rows {
		if err := w.Write(ctx, map[string]any{"text": text[i%100:], "n": i, "score": rand.Float64()}); err != nil {
			return err
		}
	}
	_, err = w.Close(ctx)
	return err
}

type answer struct {
	Rows     []json.RawMessage `json:"rows"`
	Next     string            `json:"next_cursor"`
	LiveRows int64             `json:"live_rows"`
}

func get(ctx context.Context, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", url, r.Status, body)
	}
	return json.Unmarshal(body, into)
}

func page(ctx context.Context, up *server, ds string, limit int, cursor string) (answer, error) {
	var a answer
	err := get(ctx, fmt.Sprintf("%s/api/datasets/%s/data?limit=%d&cursor=%s", up.url, ds, limit, url.QueryEscape(cursor)), &a)
	return a, err
}

// settled waits until all rows are merged and indexed.
func settled(ctx context.Context, up *server, ds string, rows int) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		var d struct {
			Rows       int   `json:"rows"`
			LiveChunks int64 `json:"live_chunks"`
		}
		if err := get(ctx, up.url+"/api/datasets/"+ds, &d); err != nil {
			return err
		}
		if d.Rows == rows && d.LiveChunks == 0 {
			pause := time.NewTimer(5 * time.Second) // the indexer follows the merge
			<-pause.C
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// cursors walks the dataset once and gives the places between its pages.
func cursors(ctx context.Context, up *server, ds string) ([]string, error) {
	out := []string{""}
	for {
		p, err := page(ctx, up, ds, 1000, out[len(out)-1])
		if err != nil {
			return nil, err
		}
		if p.Next == "" {
			return out, nil
		}
		out = append(out, p.Next)
	}
}
