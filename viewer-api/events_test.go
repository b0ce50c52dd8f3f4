package viewerapi_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/objstore/mem"
	viewerapi "github.com/siltstone-data/siltstone/viewer-api"
)

// keys reads so many events and gives the numbers of their chunks.
func (l *listener) keys(n int) string {
	l.t.Helper()
	var out []string
	for range n {
		e := l.next()
		if e.event != "rows_ingested" {
			l.t.Fatalf("%s after %v", e.event, out)
		}
		key := e.key(l.t)
		out = append(out, strings.TrimLeft(key[len(key)-11:len(key)-6], "0"))
	}
	return strings.Join(out, " ")
}

func TestAStreamBeginsConnectedAndThenGivesEvents(t *testing.T) {
	t.Parallel()
	b := serveNATS(t).join()
	publish(t, b, "d", 1)
	v := serve(t, b, mem.New(), viewerapi.Config{})
	l := v.listen("", "")
	hello := l.expect("connected")
	at, err := b.Position(t.Context())
	if err != nil || hello.id != at.String() || hello.data != `{"position":"`+at.String()+`"}` {
		t.Errorf("%+v at %v, %v", hello, at, err)
	}
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no",
		"Content-Encoding": "", "X-Content-Type-Options": "nosniff",
	} {
		if l.header.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, l.header.Get(name), want)
		}
	}
	publish(t, b, "d", 2)
	deleted := dataset.NewEvent(dataset.ObjectsDeleted, dataset.BatchID{Dataset: "d", Batch: "b"}, time.Now())
	if err := b.Publish(t.Context(), deleted); err != nil {
		t.Fatal(err)
	}
	stranger := dataset.NewEvent("reset\ndata: x\n\nevent: y", dataset.BatchID{Dataset: "d", Batch: "b"}, time.Now())
	_ = b.Publish(t.Context(), stranger) // whether or not the bus takes it
	publish(t, b, "d", 3)
	e := l.expect("rows_ingested")
	if e.key(t) != "d/b/a1b2c3_chunk_00002.jsonl" || e.id != fmt.Sprintf("%d:%d", at.Epoch, at.Seq+1) {
		t.Errorf("%+v", e)
	}
	if got := l.keys(1); got != "3" {
		t.Error(got)
	}
	if a := v.do("HEAD", "/api/events", nil); a.status != 200 || a.header.Get("Content-Type") != "text/event-stream" {
		t.Error(a)
	}
}

func TestACommitOfALayerIsTold(t *testing.T) {
	t.Parallel()
	b := serveNATS(t).join()
	l := serve(t, b, mem.New(), viewerapi.Config{}).listen("", "")
	l.expect("connected")
	for _, kind := range []dataset.EventType{dataset.BatchMerged, dataset.AnnotationUpdated} {
		e := dataset.NewEvent(kind, dataset.BatchID{Dataset: "d", Batch: "b", Annotator: "a"}, time.Now())
		e.Commit, e.Generation = "5f0c", 1
		if err := b.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		if got := l.expect(string(kind)); !strings.Contains(got.data, `"annotator":"a"`) || !strings.Contains(got.data, `"commit":"5f0c"`) {
			t.Errorf("%+v", got)
		}
	}
}

func TestOnlyTheDatasetsAskedForAreTold(t *testing.T) {
	t.Parallel()
	b := serveNATS(t).join()
	v := serve(t, b, mem.New(), viewerapi.Config{})
	all, two := v.listen("", ""), v.listen("?dataset=a%2Bb&dataset="+escaped("日本"), "")
	all.expect("connected")
	two.expect("connected")
	for i, d := range []string{"a+b", "x", "日本", "a b"} {
		publish(t, b, d, i+1)
	}
	publish(t, b, "a+b", 9)
	if got := all.keys(5); got != "1 2 3 4 9" {
		t.Error(got)
	}
	if got := two.keys(3); got != "1 3 9" {
		t.Error(got)
	}
	if a := v.get("/api/events?dataset=_x"); a.status != 400 {
		t.Error(a)
	}
}

func TestAClientThatComesBackMissesNothing(t *testing.T) {
	t.Parallel()
	h := serveNATS(t)
	b := h.join()
	store := mem.New()
	v := serve(t, b, store, viewerapi.Config{})
	l := v.listen("", "")
	start := l.expect("connected").id
	for i := range 100 { // more than may wait for a client
		publish(t, b, "d", i+1)
	}
	l.keys(3)
	l.cancel()
	back := v.listen("", l.lastID)
	if hello := back.expect("connected"); hello.id != l.lastID {
		t.Errorf("hello moves the client on: %+v", hello)
	}
	if got := back.keys(97); !strings.HasPrefix(got, "4 5 ") || !strings.HasSuffix(got, " 100") {
		t.Error(got)
	}
	publish(t, b, "d", 101)
	if got := back.keys(1); got != "101" {
		t.Error(got)
	}
	// As a parameter, for a page that opens a stream of its own accord.
	param := v.listen("?dataset=d&lastEventId="+start, "")
	param.expect("connected")
	if got := param.keys(101); !strings.HasPrefix(got, "1 2 ") {
		t.Error(got)
	}
	// A server that was started again reads what it needs.
	v.stop()
	again := serve(t, b, store, viewerapi.Config{})
	publish(t, b, "d", 102)
	late := again.listen("", start)
	late.expect("connected")
	if got := late.keys(102); !strings.HasPrefix(got, "1 2 ") || !strings.HasSuffix(got, " 102") {
		t.Error(got)
	}
}

func TestWhatIsNoLongerInMemoryIsReadFromTheStream(t *testing.T) {
	t.Parallel()
	b := serveNATS(t).join()
	v := serve(t, b, mem.New(), viewerapi.Config{})
	l := v.listen("?dataset=d", "")
	start := l.expect("connected").id
	const n = 4400 // more than are remembered
	for i := range n {
		d := "other"
		if i%1000 == 0 {
			d = "d"
		}
		publish(t, b, d, i+1)
	}
	if got := l.keys(5); got != "1 1001 2001 3001 4001" {
		t.Fatal(got)
	}
	last := v.listen("?dataset=other", "")
	last.expect("connected")
	back := v.listen("?dataset=d", start)
	back.expect("connected")
	if got := back.keys(5); got != "1 1001 2001 3001 4001" {
		t.Error(got)
	}
	publish(t, b, "d", 9999)
	if got := back.keys(1) + l.keys(1); got != "99999999" {
		t.Error(got)
	}
	if n := v.metric("siltstone_viewer_event_replays_total", "from", "stream"); n != 1 {
		t.Error(n)
	}
}

func TestAPositionThatIsGoneIsAReset(t *testing.T) {
	t.Parallel()
	b := serveNATS(t).join()
	v := serve(t, b, mem.New(), viewerapi.Config{})
	publish(t, b, "d", 1)
	at, err := b.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range []string{
		bus.Position{Epoch: at.Epoch + 1, Seq: 1}.String(), bus.Position{Epoch: at.Epoch, Seq: at.Seq + 100}.String(),
		"nonsense", "1:2:3", "0:0", "17",
	} {
		l := v.listen("", id)
		l.expect("connected")
		r := l.expect("reset")
		if p, err := bus.ParsePosition(r.id); err != nil || p.Epoch != at.Epoch {
			t.Errorf("%s: %+v", id, r)
		}
		publish(t, b, "d", i+2)
		l.expect("rows_ingested")
		l.cancel()
	}
}

// forgetful has lost what lies in its stream before the present.
type forgetful struct{ *bus.Bus }

func (f forgetful) Tail(ctx context.Context, from bus.TailFrom, follow bool) iter.Seq2[bus.Tailed, error] {
	if follow {
		return f.Bus.Tail(ctx, from, true)
	}
	return func(yield func(bus.Tailed, error) bool) { yield(bus.Tailed{}, fmt.Errorf("events: %w", bus.ErrReset)) }
}

func TestWhatTheStreamHasLostIsAReset(t *testing.T) {
	t.Parallel()
	b := serveNATS(t).join()
	at, err := b.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	publish(t, b, "d", 1)
	publish(t, b, "d", 2)
	v := serveOver(t, forgetful{b}, mem.New(), viewerapi.Config{})
	l := v.listen("", bus.Position{Epoch: at.Epoch, Seq: at.Seq + 1}.String())
	l.expect("connected")
	l.expect("reset")
	publish(t, b, "d", 3)
	if got := l.keys(1); got != "3" {
		t.Error(got)
	}
}

func TestAQuietStreamHasAHeartbeatThatMovesTheClientOn(t *testing.T) {
	if testing.Short() {
		t.Skip("a heartbeat comes every 15 s")
	}
	t.Parallel()
	b := serveNATS(t).join()
	v := serve(t, b, mem.New(), viewerapi.Config{})
	l := v.listen("?dataset=quiet", "")
	hello := l.expect("connected")
	publish(t, b, "loud", 1)
	at, err := b.Position(t.Context())
	if err != nil || at.String() == hello.id {
		t.Fatal(at, err)
	}
	select {
	case e := <-l.events:
		if e.event != moved || e.id != at.String() {
			t.Errorf("%+v, want %s", e, at)
		}
	case <-time.After(20 * time.Second):
		t.Error("no heartbeat")
	}
}

func TestAServerOfNATSThatRestartsLosesNothing(t *testing.T) {
	t.Parallel()
	h := serveNATS(t)
	b := h.join()
	v := serve(t, b, mem.New(), viewerapi.Config{})
	l := v.listen("", "")
	l.expect("connected")
	publish(t, b, "d", 1)
	l.keys(1)
	h.down()
	away := v.listen("", l.lastID)
	away.expect("connected")
	h.up()
	eventually(t, func() string {
		if !b.Connected() {
			return "not connected"
		}
		return ""
	})
	publish(t, b, "d", 2)
	if got := l.keys(1) + away.keys(1); got != "22" {
		t.Error(got)
	}
}

func TestAStreamMadeAnewResetsEverybody(t *testing.T) {
	t.Parallel()
	h := serveNATS(t)
	b := h.join()
	v := serve(t, b, mem.New(), viewerapi.Config{})
	l := v.listen("?dataset=d", "")
	old := l.expect("connected").id
	publish(t, b, "d", 1)
	l.keys(1)
	h.wipe()
	h.topology(b)
	r := l.expect("reset")
	if r.id == old {
		t.Error(r)
	}
	publish(t, b, "d", 2)
	if got := l.keys(1); got != "2" {
		t.Error(got)
	}
	back := v.listen("", old)
	back.expect("connected")
	back.expect("reset")
}

func TestAClientThatNeverReadsIsCutOff(t *testing.T) {
	t.Parallel()
	b := serveNATS(t).join()
	v := serve(t, b, mem.New(), viewerapi.Config{})
	good := v.listen("?dataset=d", "")
	good.expect("connected")
	d := net.Dialer{Timeout: 5 * time.Second}
	c, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(v.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	eventually(t, func() string {
		if n := v.metric("siltstone_viewer_event_clients"); n != 2 {
			return fmt.Sprint(n, " clients")
		}
		return ""
	})
	began := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	published := make(chan struct{})
	go func() {
		defer close(published)
		for i := 0; ctx.Err() == nil; i++ {
			e := dataset.NewEvent(dataset.RunCompleted, dataset.BatchID{Dataset: "other", Batch: "b"}, time.Now())
			e.Run, e.State = dataset.Run(fmt.Sprintf("%06x", i)), strings.Repeat("x", 2000)
			_ = b.Publish(ctx, e)
		}
	}()
	eventually(t, func() string {
		if n := v.metric("siltstone_viewer_event_clients"); n != 1 {
			return fmt.Sprint(n, " clients after ", time.Since(began))
		}
		return ""
	})
	cancel()
	<-published
	if took := time.Since(began); took > 15*time.Second {
		t.Error("it took", took)
	}
	if v.metric("siltstone_viewer_event_clients_cut_total", "why", "behind")+v.metric("siltstone_viewer_event_clients_cut_total", "why", "stalled") == 0 {
		t.Error("nothing was counted")
	}
	publish(t, b, "d", 1)
	if got := good.keys(1); got != "1" {
		t.Error(got)
	}
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.Copy(io.Discard, c); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Error("the connection stays open")
	}
}

func TestAClientThatHasGoneIsNoticedAtTheNextEvent(t *testing.T) {
	t.Parallel()
	b := serveNATS(t).join()
	v := serve(t, b, mem.New(), viewerapi.Config{})
	for range 20 {
		l := v.listen("", "")
		l.expect("connected")
		l.cancel()
	}
	n := 0
	eventually(t, func() string {
		n++
		publish(t, b, "d", n)
		if n := v.metric("siltstone_viewer_event_clients"); n != 0 {
			return fmt.Sprint(n, " clients")
		}
		return ""
	})
}

func TestTheEndIsQuickWithStreamsOpen(t *testing.T) {
	t.Parallel()
	b := serveNATS(t).join()
	v := serve(t, b, mem.New(), viewerapi.Config{})
	var open []*listener
	for range 50 {
		l := v.listen("", "")
		l.expect("connected")
		open = append(open, l)
	}
	began := time.Now()
	v.stop()
	if took := time.Since(began); took > 3*time.Second {
		t.Error(took)
	}
	for _, l := range open {
		for range l.events { // ends
		}
	}
}

func TestWithoutNATSListenersAreSentAwayAndPagesWork(t *testing.T) {
	t.Parallel()
	store := mem.New()
	put(t, store, "d", "b", 0, `{"id":"1"}`)
	v := serve(t, nil, store, viewerapi.Config{})
	if a := v.get("/api/events"); a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Error(a)
	}
	if a := v.get("/api/datasets/d/data"); a.status != http.StatusOK {
		t.Error(a)
	}
}
