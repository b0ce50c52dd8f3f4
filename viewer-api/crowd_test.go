package viewerapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/objstore/mem"
	viewerapi "github.com/siltstone-data/siltstone/viewer-api"
)

// crowdEnv makes the test binary the listeners, so that the memory of this
// process is that of the server.
const crowdEnv = "SILTSTONE_TEST_CROWD"

func TestMain(m *testing.M) {
	if addr := os.Getenv(crowdEnv); addr != "" {
		crowd(addr, os.Stdin, os.Stdout)
		return
	}
	os.Exit(m.Run())
}

// crowdResult is what the listeners saw.
type crowdResult struct {
	Connected int
	Events    int
	P50, P99  float64 // milliseconds from an event's time to its line here
	Worst     float64
}

const crowdSize = 2000

// crowd opens streams, says so, and listens until its input ends.
func crowd(addr string, stop io.Reader, out io.Writer) {
	var mu sync.Mutex
	var r crowdResult
	var took []float64
	var ready, done sync.WaitGroup
	conns := make([]net.Conn, crowdSize)
	for i := range conns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		conns[i] = c
		ready.Add(1)
		done.Go(func() {
			hello := sync.OnceFunc(ready.Done)
			defer hello()
			fmt.Fprintf(c, "GET /api/events HTTP/1.1\r\nHost: x\r\n\r\n")
			sc := bufio.NewScanner(c)
			sc.Buffer(make([]byte, 1024), 4096)
			for sc.Scan() {
				data, ok := strings.CutPrefix(sc.Text(), "data: ")
				if !ok {
					continue
				}
				var e dataset.Event
				if json.Unmarshal([]byte(data), &e) == nil && !e.At.IsZero() {
					ms := float64(time.Since(e.At).Microseconds()) / 1000
					mu.Lock()
					took = append(took, ms)
					mu.Unlock()
					continue
				}
				mu.Lock()
				r.Connected++
				mu.Unlock()
				hello()
			}
		})
	}
	ready.Wait()
	fmt.Fprintln(out, "ready")
	_, _ = io.Copy(io.Discard, stop)
	for _, c := range conns {
		c.Close()
	}
	done.Wait()
	slices.Sort(took)
	if r.Events = len(took); r.Events > 0 {
		r.P50, r.P99, r.Worst = took[len(took)/2], took[len(took)*99/100], took[len(took)-1]
	}
	_ = json.NewEncoder(out).Encode(r)
}

// listenMany tells a crowd of so many events, ten a second, and gives what it
// saw and the memory per listener.
func listenMany(t testing.TB, events int) (r crowdResult, perClient float64) {
	t.Helper()
	b := serveNATS(t).join()
	v := serve(t, b, mem.New(), viewerapi.Config{})
	first := v.listen("", "")
	first.expect("connected")
	before := memory()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), crowdEnv+"="+strings.TrimPrefix(v.url, "http://"))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(out)
	if line, err := answers.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatal(line, err)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := range events {
		<-tick.C
		tell(t, b, i)
	}
	perClient = float64(memory()-before) / crowdSize / 1024
	first.keys(events)
	// The sum of what was sent: all have everything when it says so.
	eventually(t, func() string {
		if n := v.metric("siltstone_viewer_events_sent_total"); n < float64(events*(crowdSize+1)) {
			return fmt.Sprint(n, " events were sent")
		}
		return ""
	})
	in.Close()
	if err := json.NewDecoder(answers).Decode(&r); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if cut := v.metric("siltstone_viewer_event_clients_cut_total", "why", "behind"); cut != 0 {
		t.Error(cut, "were cut off")
	}
	return r, perClient
}

func tell(t testing.TB, b *bus.Bus, i int) {
	t.Helper()
	e := dataset.NewEvent(dataset.RowsIngested, dataset.BatchID{Dataset: "d", Batch: "b"}, time.Now())
	e.Key, e.ETag = fmt.Sprintf("d/b/a1b2c3_chunk_%05d.jsonl", i), fmt.Sprint(i)
	e.Bytes = 12345
	if err := b.Publish(context.Background(), e); err != nil {
		t.Fatal(err)
	}
}

// memory is what the heap and the stacks take.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

func TestTwoThousandListenersHearEverything(t *testing.T) {
	if testing.Short() {
		t.Skip("2,000 connections")
	}
	r, kib := listenMany(t, 30)
	t.Logf("%+v, %.1f KiB for each", r, kib)
	if r.Connected != crowdSize || r.Events != 30*crowdSize {
		t.Errorf("%+v", r)
	}
}

// BenchmarkListeners measures 2,000 listeners at 10 events a second.
func BenchmarkListeners(b *testing.B) {
	for b.Loop() {
		r, kib := listenMany(b, 100)
		b.ReportMetric(r.P50, "p50-ms")
		b.ReportMetric(r.P99, "p99-ms")
		b.ReportMetric(r.Worst, "worst-ms")
		b.ReportMetric(kib, "KiB/client")
	}
}
