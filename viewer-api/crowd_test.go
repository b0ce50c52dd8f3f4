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
	"strconv"
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
		n, err := strconv.Atoi(os.Getenv(crowdEnv + "_EVENTS"))
		if err != nil {
			panic(err)
		}
		crowd(addr, n, os.Stdout)
		return
	}
	os.Exit(m.Run())
}

// crowdResult is what the listeners saw.
type crowdResult struct {
	Connected int
	Events    int
	Others    []string // what was neither
	P50, P99  float64  // milliseconds from an event's time to its line here
	Worst     float64
}

const crowdSize = 2000

// crowd opens streams, says so, and listens until each has given so many events
// or has ended.
func crowd(addr string, events int, out io.Writer) {
	var mu sync.Mutex
	var r crowdResult
	var took []float64
	var ready, done sync.WaitGroup
	for range crowdSize {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		ready.Add(1)
		done.Go(func() {
			defer c.Close()
			hello := sync.OnceFunc(ready.Done)
			defer hello()
			fmt.Fprintf(c, "GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
			_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
			sc := bufio.NewScanner(c)
			sc.Buffer(make([]byte, 1024), 4096)
			for n := 0; n < events && sc.Scan(); {
				data, ok := strings.CutPrefix(sc.Text(), "data: ")
				if !ok {
					continue
				}
				now := time.Now()
				var e dataset.Event
				err := json.Unmarshal([]byte(data), &e)
				mu.Lock()
				switch {
				case err == nil && !e.At.IsZero():
					n++
					took = append(took, float64(now.Sub(e.At).Microseconds())/1000)
				case strings.HasPrefix(data, `{"position":`):
					r.Connected++
				default:
					r.Others = append(r.Others, data)
				}
				mu.Unlock()
				hello()
			}
		})
	}
	ready.Wait()
	fmt.Fprintln(out, "ready")
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
	cmd.Env = append(os.Environ(), crowdEnv+"="+strings.TrimPrefix(v.url, "http://"), fmt.Sprint(crowdEnv, "_EVENTS=", events))
	cmd.Stderr = os.Stderr
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
	if err := json.NewDecoder(answers).Decode(&r); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if cut := v.metric("siltstone_viewer_event_clients_cut_total", "why", "behind"); cut != 0 {
		t.Error(cut, "were cut off")
	}
	if n := v.metric("siltstone_viewer_event_resets_total"); n != 0 {
		t.Error(n, "were reset")
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
