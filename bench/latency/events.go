package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/siltstone-data/siltstone"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/producers"
)

// listen reads the events of a dataset and tells each, until ctx ends.
func listen(ctx context.Context, url, ds string, connected func(), each func(dataset.Event)) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/api/events?dataset="+ds, nil)
	if err != nil {
		return err
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("events: %s", r.Status)
	}
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		if lines.Text() == "event: connected" {
			connected()
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		var e dataset.Event
		if ok && json.Unmarshal([]byte(data), &e) == nil && e.Type == dataset.RowsIngested {
			each(e)
		}
	}
	return ctx.Err()
}

// puts stores n chunks of one row each, pause apart, and notes when each put
// was answered.
func puts(ctx context.Context, tool *siltstone.Tool, ds string, n int, pause time.Duration) (map[string]time.Time, error) {
	answered := map[string]time.Time{}
	var w *producers.Writer
	w, err := tool.Writer(ctx, ds, "b", producers.ChunkRows(1), producers.OnStored(func([]string) {
		key := dataset.BatchID{Dataset: ds, Batch: "b"}.ChunkKey(w.Run(), len(answered))
		answered[key] = time.Now()
	}))
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for i := range n {
		if err := w.Write(ctx, map[string]any{"text": "a row that somebody waits for", "n": i}); err != nil {
			return nil, err
		}
		if err := w.Flush(ctx); err != nil {
			return nil, err
		}
		<-tick.C
	}
	_, err = w.Close(ctx)
	return answered, err
}

// events measures from the answer of a PUT to the event in one client.
func events(ctx context.Context, up *server, tool *siltstone.Tool) error {
	const n = 500
	heading("From the answer of a PUT to the event in a client")
	took, err := watched(ctx, up, tool, "events", 1, n, 20*time.Millisecond)
	if err != nil {
		return err
	}
	quantiles("one client", took)
	return nil
}

// crowd does the same with 2,000 clients at ten events a second, and asks what
// each of them costs.
func crowd(ctx context.Context, up *server, tool *siltstone.Tool) error {
	const clients, n = 2000, 100
	before, err := resident(ctx, up)
	if err != nil {
		return err
	}
	heading("The same with 2,000 clients, 10 events a second")
	took, err := watched(ctx, up, tool, "crowd", clients, n, 100*time.Millisecond)
	if err != nil {
		return err
	}
	quantiles("all clients", took)
	fmt.Printf("\nResident memory of the server grew by %.0f KiB a client.\n", (peak-before)/clients/1024)
	return nil
}

// peak is the server's resident memory while the last crowd was connected.
var peak float64

// watched puts n chunks while clients listen, and gives how long after the put
// each client had each event. An event that comes before the answer took no time.
func watched(ctx context.Context, up *server, tool *siltstone.Tool, ds string, clients, n int, pause time.Duration) ([]time.Duration, error) {
	listening, hangUp := context.WithCancel(ctx)
	defer hangUp()
	var mu sync.Mutex
	seen := map[string][]time.Time{}
	var connected, done sync.WaitGroup
	connected.Add(clients)
	var failure error
	for range clients {
		done.Go(func() {
			err := listen(listening, up.url, ds, connected.Done, func(e dataset.Event) {
				now := time.Now()
				mu.Lock()
				defer mu.Unlock()
				seen[e.Key] = append(seen[e.Key], now)
			})
			if err != nil && listening.Err() == nil {
				mu.Lock()
				defer mu.Unlock()
				failure = err
			}
		})
	}
	connected.Wait()
	answered, err := puts(ctx, tool, ds, n, pause)
	if err != nil {
		return nil, err
	}
	if peak, err = resident(ctx, up); err != nil {
		return nil, err
	}
	settle := time.NewTimer(2 * time.Second)
	<-settle.C
	hangUp()
	done.Wait()
	if failure != nil {
		return nil, failure
	}
	var took []time.Duration
	for key, at := range answered {
		if len(seen[key]) != clients {
			return nil, fmt.Errorf("%d of %d clients had the event of %s", len(seen[key]), clients, key)
		}
		for _, t := range seen[key] {
			took = append(took, max(0, t.Sub(at)))
		}
	}
	return took, nil
}

// resident reads the server's resident memory, in bytes, from its metrics.
func resident(ctx context.Context, up *server) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, up.url+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		var v float64
		if _, err := fmt.Sscanf(lines.Text(), "process_resident_memory_bytes %g", &v); err == nil {
			return v, nil
		}
	}
	return 0, fmt.Errorf("the metrics do not tell the resident memory")
}
