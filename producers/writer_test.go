package producers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/objstore/objtest"
	"github.com/siltstone-data/siltstone/producers"
)

var batch = dataset.BatchID{Dataset: "d", Batch: "b"}

var quiet = slog.New(slog.DiscardHandler)

func open(t *testing.T, s objstore.Store, opts ...producers.Option) *producers.Writer {
	t.Helper()
	w, err := producers.Open(t.Context(), s, nil, quiet, batch.Dataset, batch.Batch, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func write(t *testing.T, w *producers.Writer, rows ...string) {
	t.Helper()
	for _, r := range rows {
		if err := w.Write(t.Context(), []byte(r)); err != nil {
			t.Fatalf("write %s: %v", r, err)
		}
	}
}

func closeWriter(t *testing.T, w *producers.Writer) producers.Result {
	t.Helper()
	res, err := w.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func fill(from, to int) []string {
	var rows []string
	for i := from; i < to; i++ {
		rows = append(rows, fmt.Sprintf(`{"id":"r%05d","_created_at":"2026-01-02T03:04:05Z","n":%d}`, i, i))
	}
	return rows
}

// stored gives the lines of each chunk of a batch, and checks that every object
// there is a chunk of whole lines or a run manifest.
func stored(t *testing.T, s objstore.Store, b dataset.BatchID) map[string][]string {
	t.Helper()
	l, err := catalog.ListLive(context.Background(), s, b)
	if err != nil {
		t.Fatal(err)
	}
	chunks := map[string][]string{}
	for _, c := range l.Chunks {
		body, _, err := objstore.ReadAll(context.Background(), s, c.Key())
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasSuffix(body, []byte("\n")) {
			t.Errorf("%s does not end with a newline", c.Key())
		}
		chunks[c.Key()] = strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
	}
	return chunks
}

// storedIDs counts how often each id is stored.
func storedIDs(t *testing.T, s objstore.Store) map[string]int {
	t.Helper()
	ids := map[string]int{}
	for key, lines := range stored(t, s, batch) {
		for _, line := range lines {
			r, err := dataset.ParseRow([]byte(line))
			if err != nil {
				t.Fatalf("%s: %v", key, err)
			}
			ids[r.ID]++
		}
	}
	return ids
}

func manifest(t *testing.T, s objstore.Store, r dataset.Run) catalog.RunManifest {
	t.Helper()
	m, err := catalog.ReadRun(context.Background(), s, batch, r)
	if err != nil {
		t.Fatal(err)
	}
	m.ETag = ""
	return m
}

func TestRowsComeOutAsTheyWentIn(t *testing.T) {
	s := mem.New()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w := open(t, s, producers.Clock(func() time.Time { return at }))
	const head = `{"id":"a","_created_at":"2026-01-02T03:04:05.000000Z"`
	rows := []struct {
		row  any
		want string
	}{
		{[]byte(`{"id":"a","n":9007199254740993,"x":1e400,"y":-0,"z":1.0}`), head + `,"n":9007199254740993,"x":1e400,"y":-0,"z":1.0}`},
		{json.RawMessage(`{"z":1, "id":"a" ,"t":"\u00e9\/<&>\ud83d"}`), head + `,"z":1,"t":"\u00e9\/<&>\ud83d"}`},
		{[]byte("{\"id\":\"a\",\n  \"t\": [1,\r\n 2]}\n"), head + `,   "t": [1,   2]}`},
		{map[string]any{"id": "a", "t": "a<b&c"}, head + `,"t":"a<b&c"}`},
		{struct {
			ID string `json:"id"`
			T  json.RawMessage
		}{"a", json.RawMessage(`1.0`)}, head + `,"T":1.0}`},
		{map[string]any{"id": 7, "t": `\ufffd and ` + "\uFFFD"}, `{"id":"7","_created_at":"2026-01-02T03:04:05.000000Z","t":"\\ufffd and ` + "\uFFFD" + `"}`},
		{dataset.Row{Raw: []byte(`{"id":"a","_created_at":"2020-01-01T00:00:00+02:00","k":null}`)}, `{"id":"a","_created_at":"2020-01-01T00:00:00+02:00","k":null}`},
	}
	var want []string
	for _, r := range rows {
		if err := w.Write(t.Context(), r.row); err != nil {
			t.Fatal(err)
		}
		want = append(want, r.want)
	}
	res := closeWriter(t, w)
	got := stored(t, s, batch)
	if diff := cmp.Diff(map[string][]string{batch.ChunkKey(w.Run(), 0): want}, got); diff != "" {
		t.Fatal(diff)
	}
	bytes := int64(len(strings.Join(want, "\n")) + 1)
	if diff := cmp.Diff(producers.Result{Dataset: "d", Batch: "b", Run: w.Run(), Rows: 7, Chunks: 1, Bytes: bytes}, res); diff != "" {
		t.Fatal(diff)
	}
}

func TestWhatIsNoRowIsRefusedAndTheWriterGoesOn(t *testing.T) {
	s := mem.New()
	w := open(t, s)
	type node struct {
		T    string
		Next *node `json:"-"`
	}
	ring := &node{T: "\xff"}
	ring.Next = ring
	for _, row := range []any{
		nil, "text", 7, []int{1}, []byte(`[]`), []byte(`{"a":NaN}`), []byte(`{"a":1}{"b":2}`), []byte(`{"a":1,"a":2}`),
		[]byte("{\"a\":\"\xff\"}"), map[string]any{"a": "\xff"}, map[string]any{"\xff": 1}, []byte(`{"id":null}`), []byte("{\"a\":\"x\ny\"}"),
		[]byte(`{"_batch":"b"}`), []byte(`{"_silt_x":1}`), map[string]any{"f": func() {}}, ring, []byte(nil),
	} {
		if err := w.Write(t.Context(), row); !errors.Is(err, producers.ErrRejected) {
			t.Errorf("%v: %v", row, err)
		}
	}
	write(t, w, `{"a":1}`)
	res := closeWriter(t, w)
	if res.Rejected != 18 || res.Rows != 1 {
		t.Fatalf("%+v", res)
	}
}

func TestTheLinesOfAnInputAreWrittenAsTheirBytesAre(t *testing.T) {
	lines := []string{`{"id":"a","x":1.0}`, ` {"x":[1, 2] , "id":7, "_created_at":1716076800}`, `{"_batch":1}`, `nope`, `{"id":null}`, `{"id":"b","_created_at":"soon"}`, `{"id":"c"}`}
	for format, content := range map[producers.Format]string{producers.NDJSON: strings.Join(lines, "\n"), producers.CSV: "id,x\na,1\n7,\n"} {
		s := mem.New()
		inputs := func(yield func(producers.Line)) {
			in, err := producers.OpenInput(t.Context(), producers.Stdin, producers.InputConfig{Format: format, Stdin: strings.NewReader(content)})
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			for line, err := range in.Lines() {
				if err != nil {
					t.Fatal(err)
				}
				yield(line)
			}
		}
		byLine, byBytes := open(t, s), open(t, s)
		var refused [2][]bool
		inputs(func(line producers.Line) {
			err := byLine.WriteLine(t.Context(), line)
			if err != nil && !errors.Is(err, producers.ErrRejected) {
				t.Fatal(err)
			}
			refused[0] = append(refused[0], err != nil)
			err = byBytes.Write(t.Context(), line.Raw)
			refused[1] = append(refused[1], err != nil)
		})
		if d := cmp.Diff(refused[1], refused[0]); d != "" {
			t.Errorf("%v: what is refused differs: %s", format, d)
		}
		results := []producers.Result{closeWriter(t, byLine), closeWriter(t, byBytes)}
		if results[0].Rows != results[1].Rows || results[0].Rejected != results[1].Rejected || results[0].Rows == 0 {
			t.Errorf("%v: %+v", format, results)
		}
		var texts []string
		at := regexp.MustCompile(`"_created_at":"20[^"]*"`)
		for _, rows := range stored(t, s, batch) {
			texts = append(texts, at.ReplaceAllString(strings.Join(rows, "\n"), "AT"))
		}
		if len(texts) != 2 || texts[0] != texts[1] {
			t.Errorf("%v: stored %q", format, texts)
		}
	}
}

func TestAChunkIsFullByRowsOrByBytes(t *testing.T) {
	s := mem.New()
	row := func(n int) string {
		return fmt.Sprintf(`{"id":"a","_created_at":"2026-01-02T03:04:05Z","t":"%s"}`, strings.Repeat("x", n))
	}
	overhead := len(row(0)) + 1
	w := open(t, s, producers.ChunkRows(3), producers.ChunkBytes(3*overhead+100))
	for _, n := range []int{0, 0, 0 /**/, 90, 5 /**/, 200 /**/, 1, 100 + overhead - 1 /**/, 0} {
		write(t, w, row(n))
	}
	res := closeWriter(t, w)
	var got []int
	for i := range res.Chunks {
		got = append(got, len(stored(t, s, batch)[batch.ChunkKey(w.Run(), i)]))
	}
	if diff := cmp.Diff([]int{3, 2, 1, 2, 1}, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestTheRunIsClaimedBeforeRowsAndClosedAtTheEnd(t *testing.T) {
	s := mem.New()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := func() time.Time { return at }
	w := open(t, s, producers.DeduplicateOn("text", "lang"), producers.Name("loader"), producers.Clock(clock), producers.ChunkRows(2))
	want := catalog.RunManifest{
		Version: 1, Run: w.Run(), Dataset: "d", Batch: "b", DeduplicateOn: []string{"text", "lang"},
		Writer: "loader", StartedAt: at, State: catalog.RunOpen, UpdatedAt: at,
	}
	if diff := cmp.Diff(want, manifest(t, s, w.Run())); diff != "" {
		t.Fatal(diff)
	}
	write(t, w, fill(0, 5)...)
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	at = at.Add(time.Minute)
	res := closeWriter(t, w)
	want.State, want.Chunks, want.Rows, want.Bytes, want.UpdatedAt = catalog.RunCompleted, 3, 5, res.Bytes, at
	if diff := cmp.Diff(want, manifest(t, s, w.Run())); diff != "" {
		t.Fatal(diff)
	}
}

func TestNoOpinionOnDuplicatesDiffersFromNoDeduplication(t *testing.T) {
	for want, opts := range map[string][]producers.Option{
		"null":  nil,
		"[]":    {producers.DeduplicateOn()},
		`["x"]`: {producers.DeduplicateOn("x")},
	} {
		s := mem.New()
		w := open(t, s, opts...)
		closeWriter(t, w)
		raw, _, err := objstore.ReadAll(t.Context(), s, batch.RunKey(w.Run()))
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatal(err)
		}
		if got := string(m["deduplicate_on"]); got != want {
			t.Errorf("deduplicate_on is %s, want %s", got, want)
		}
	}
}

func TestBadNamesAndOptionsAreRefusedBeforeAnyIO(t *testing.T) {
	never := objtest.On().Fail(errors.New("no call was expected"))
	s := objtest.NewFaulty(&testing.T{}, mem.New(), never)
	for _, c := range []struct {
		d, b string
		opt  producers.Option
		want string
	}{
		{"", "b", nil, "is empty"},
		{"a/b", "b", nil, "must not contain /"},
		{"d", "annotations", nil, "reserved for layers"},
		{"d", "_x", nil, "must not start with"},
		{"d", "b", producers.ChunkRows(0), "at least 1"},
		{"d", "b", producers.ChunkBytes(-1), "at least 1"},
		{"d", "b", producers.ChunkAge(-1), "cannot be negative"},
		{"d", "b", producers.DeduplicateOn("_batch"), "reserved"},
		{"d", "b", producers.DeduplicateOn("x", "x"), "named twice"},
		{"d", "b", producers.DeduplicateOn("a", "x\xff"), "not valid UTF-8"},
	} {
		opts := []producers.Option{producers.Name("n")}
		if c.opt != nil {
			opts = append(opts, c.opt)
		}
		_, err := producers.Open(t.Context(), s, nil, quiet, c.d, c.b, opts...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q/%q: %v, want %q", c.d, c.b, err, c.want)
		}
		if (c.opt != nil) != errors.Is(err, producers.ErrOption) {
			t.Errorf("%q/%q: %v: whose mistake is it?", c.d, c.b, err)
		}
	}
	if len(s.Unfired()) == 0 {
		t.Fatal("the store was asked")
	}
}

func TestManyGoroutinesWriteTwentyThousandRowsThatAllArriveOnce(t *testing.T) {
	s := mem.New()
	var mu sync.Mutex
	told := map[string]int{}
	w := open(t, s, producers.ChunkRows(37), producers.ChunkAge(time.Millisecond), producers.OnStored(func(ids []string) {
		mu.Lock()
		defer mu.Unlock()
		for _, id := range ids {
			told[id]++
		}
	}))
	const writers, each = 50, 400
	var wg sync.WaitGroup
	for g := range writers {
		wg.Go(func() {
			for i := range each {
				var row any = map[string]any{"g": g, "i": i}
				if i%3 == 0 {
					row = fmt.Appendf(nil, `{"g":%d,"i":%d}`, g, i)
				}
				if err := w.Write(context.Background(), row); err != nil {
					t.Error(err)
				}
				if i == each/2 && g%10 == 0 {
					if err := w.Flush(context.Background()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	res := closeWriter(t, w)
	if res.Rows != writers*each {
		t.Fatalf("%+v", res)
	}
	ids := storedIDs(t, s)
	if len(ids) != writers*each {
		t.Fatalf("%d ids are stored", len(ids))
	}
	if diff := cmp.Diff(ids, told); diff != "" {
		t.Fatal("OnStored was told something else than what is stored")
	}
	chunks := stored(t, s, batch)
	for i := range res.Chunks {
		if chunks[batch.ChunkKey(w.Run(), i)] == nil {
			t.Errorf("chunk %d is missing: numbers have a gap", i)
		}
	}
}

func TestWritersOfOneBatchDoNotDisturbEachOther(t *testing.T) {
	s := mem.New()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			w, err := producers.Open(context.Background(), s, nil, quiet, "d", "b", producers.ChunkRows(10))
			if err != nil {
				t.Error(err)
				return
			}
			for _, r := range fill(g*100, g*100+95) {
				if err := w.Write(context.Background(), []byte(r)); err != nil {
					t.Error(err)
				}
			}
			if res, err := w.Close(context.Background()); err != nil || res.Rows != 95 || res.Chunks != 10 {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
	wg.Wait()
	if ids := storedIDs(t, s); len(ids) != 8*95 {
		t.Fatalf("%d ids", len(ids))
	}
}

func TestARunIDThatIsTakenIsNotUsed(t *testing.T) {
	s := mem.New()
	random := func() producers.Option {
		return producers.Random(bytes.NewReader([]byte("aaabbbccccccccccccccccccccccccc")))
	}
	a, b := open(t, s, random()), open(t, s, random())
	if a.Run() != "616161" || b.Run() != "626262" {
		t.Fatal(a.Run(), b.Run())
	}
	closeWriter(t, a)
	closeWriter(t, b)
}

func TestALayerHasItsOwnPlaceAndEvent(t *testing.T) {
	s := mem.New()
	layer := dataset.BatchID{Dataset: "d", Batch: "b", Annotator: "a"}
	bus := &recorder{}
	w, err := producers.OpenBatch(t.Context(), s, bus, quiet, layer)
	if err != nil {
		t.Fatal(err)
	}
	const row = `{"id":"x","_batch":"b","_created_at":"2026-01-02T03:04:05Z","data":{"k":1},"metadata":{}}`
	if err := w.WriteRow(t.Context(), dataset.Row{ID: "x", Raw: []byte(row)}); err != nil {
		t.Fatal(err)
	}
	closeWriter(t, w)
	if diff := cmp.Diff(map[string][]string{layer.ChunkKey(w.Run(), 0): {row}}, stored(t, s, layer)); diff != "" {
		t.Fatal(diff)
	}
	if diff := cmp.Diff([]dataset.EventType{dataset.AnnotationUpdated, dataset.RunCompleted}, bus.types()); diff != "" {
		t.Fatal(diff)
	}
}
