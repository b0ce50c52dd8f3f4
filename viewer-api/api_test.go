package viewerapi_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/objstore/mem"
	viewerapi "github.com/siltstone-data/siltstone/viewer-api"
)

var update = flag.Bool("update", false, "rewrite the golden answers")

// odd names are legal, and every address must carry them.
var oddNames = []string{
	"example", "日本語", "a+b", "50%", "x=1", `"quoted"`, "it's", "a b", "CON", "a.b>*", "a,b;c", "~", "-", "🙂", "%2F", "?q=1#f", "a:b",
	"<b>&amp;", "{x}", ":dataset", "*", "data", strings.Repeat("é", 100),
}

var oddIDs = []string{
	"plain", "a/b", "../../etc/passwd", "//", "%2F", "%", "a b+c", "<img src=x onerror=alert(1)>", "?x#y", "日本", `"`, `\`, "\u0000", "line\nend", "é", " ", ";",
}

func escaped(s string) string { return url.PathEscape(s) }

func TestEveryAnswerHasItsGoldenShape(t *testing.T) {
	b := serveNATS(t).join()
	store := mem.New()
	put(t, store, "日本 a+b", "b 1", 0, `{"id":"1","_created_at":"2026-11-30T06:00:00Z","text":"<b>\u00e9</b>","n":1.0,"big":9007199254740993,"e":1e400,"none":null}`,
		`{"id":"2","_created_at":"2026-11-30T06:00:01Z","text":"two"}`)
	put(t, store, "日本 a+b", "b2", 0, `{"id":"2","text":"another two"}`)
	annotation(t, store, "lang", "日本 a+b", "b 1", 0, `{"id":"1","_batch":"b 1","_created_at":"2026-11-30T06:01:00Z","data":{"code":"en","p":1.0},"metadata":{"cost_usd":0.001}}`,
		`{"id":"9","_batch":"b 1","data":{"code":"xx"}}`)
	if err := b.Enqueue(t.Context(), bus.Job{Kind: bus.KindMerge, Batch: dataset.BatchID{Dataset: "日本 a+b", Batch: "b 1"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := catalog.UpdateConversion(t.Context(), store, "日本 a+b", func(c *catalog.Conversion) bool {
		at := time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC)
		c.Plan(map[string]int64{"b 1": 10, "b2": 20, "b2/lang": 30}, at)
		c.Done("b 1", at)
		c.Begin("b2", catalog.AtWork{By: "merger@host/1", Phase: "adopt", Done: 5, Total: 7, At: at})
		c.Fail("b2/lang", "cut", at)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	v := serve(t, b, store, viewerapi.Config{})
	d := "/api/datasets/" + escaped("日本 a+b")
	for _, c := range []struct{ file, path string }{
		{"datasets.json", "/api/datasets"},
		{"dataset.json", d},
		{"schema.json", d + "/schema"},
		{"data.json", d + "/data"},
		{"data-columns.json", d + "/data?columns=n,big,e&limit=1&batch=b+1"},
		{"data-newest.json", d + "/data?sort=id:desc&limit=2"},
		{"data-layers.json", d + "/data?annotators=lang&columns=n,lang.code,lang._metadata"},
		{"data-filter.json", d + "/data?annotators=lang&filter=" + url.QueryEscape(`{"any":[{"column":"lang.code","op":"eq","value":"en"},{"column":"text","op":"search","value":"TWO"}]}`)},
		{"data-layers.ndjson", d + "/data?format=ndjson&annotators=lang"},
		{"data-layers.csv", d + "/data?format=csv&annotators=lang&filter=" + url.QueryEscape(`{"column":"id","op":"eq","value":"1"}`)},
		{"data.ndjson", d + "/data?format=ndjson"},
		{"data.csv", d + "/data?format=csv"},
		{"row.json", d + "/rows/2"},
		{"row-of-batch.json", d + "/rows/1?batch=" + url.QueryEscape("b 1")},
		{"count.json", d + "/count"},
		{"conversion.json", d + "/conversion"},
		{"jobs.json", "/api/jobs"},
		{"not-found.json", "/api/datasets/" + escaped("日本 a+c")},
		{"bad-request.json", d + "/data?limit=0"},
	} {
		t.Run(c.file, func(t *testing.T) {
			a := v.get(c.path)
			if strings.HasSuffix(c.file, ".json") && !json.Valid([]byte(a.body)) {
				t.Fatalf("no JSON: %s", a.body)
			}
			got := a.body
			for _, r := range []struct{ varies, fixed string }{
				{`"(since|due)":"[^"]*"`, `"$1":"2026-11-30T06:00:00Z"`}, {`"took_ms":[0-9.]+`, `"took_ms":1.5`}, {`"bytes_read":[0-9]+`, `"bytes_read":4096`},
			} {
				got = regexp.MustCompile(r.varies).ReplaceAllString(got, r.fixed)
			}
			golden(t, c.file, got)
		})
	}
}

func TestADatasetWithoutAConversionIsIdle(t *testing.T) {
	store := mem.New()
	put(t, store, "d", "b", 0, `{"id":"1"}`)
	v := serve(t, nil, store, viewerapi.Config{})
	if a := v.get("/api/datasets/d/conversion"); a.status != http.StatusOK || strings.TrimSpace(a.body) != `{"state":"idle"}` {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := v.get("/api/datasets/e/conversion"); a.status != http.StatusNotFound || !strings.Contains(a.body, `"nearest":"d"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", "answers", file)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

func TestOddNamesWorkInEveryAddress(t *testing.T) {
	store := mem.New()
	for _, n := range oddNames {
		put(t, store, n, n, 0, `{"id":"1"}`)
	}
	for i, id := range oddIDs {
		raw, err := json.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		put(t, store, "ids", "b", i, `{"id":`+string(raw)+`}`)
	}
	put(t, store, "ids", "b", 99, `{"id":".."}`, `{"id":"."}`)
	v := serve(t, nil, store, viewerapi.Config{})
	for _, n := range oddNames {
		for _, path := range []string{"", "/schema", "/data?batch=" + url.QueryEscape(n), "/rows/1?batch=" + url.QueryEscape(n), "/count?batch=" + url.QueryEscape(n),
			"/data?format=ndjson&batch=" + url.QueryEscape(n), "/data?format=csv&batch=" + url.QueryEscape(n)} {
			if a := v.get("/api/datasets/" + escaped(n) + path); a.status != http.StatusOK {
				t.Errorf("%q%s: %d %s", n, path, a.status, a.body)
			}
		}
		if a := v.get("/api/datasets/" + escaped(n) + "/data"); !strings.Contains(a.body, `"_batch":`) {
			t.Errorf("%q: %s", n, a.body)
		}
	}
	for _, id := range append([]string{".", ".."}, oddIDs...) {
		path := "/api/datasets/ids/rows?id=" + url.QueryEscape(id)
		if id != "." && id != ".." {
			path = "/api/datasets/ids/rows/" + escaped(id)
		}
		var got struct{ Rows []struct{ ID string } }
		a := v.get(path)
		if err := json.Unmarshal([]byte(a.body), &got); err != nil || len(got.Rows) != 1 || got.Rows[0].ID != id {
			t.Errorf("%q: %d %s", id, a.status, a.body)
		}
	}
}

func TestNumbersLeaveAsTheyWereWritten(t *testing.T) {
	const line = `{"id":"1","a":1.0,"b":1e400,"c":9007199254740993,"d":-0,"e":1E+2,"s":"\u00e9\ud800</script>","o":{"x": 1.10 , "x2":[ ]}}`
	store := mem.New()
	put(t, store, "d", "b", 0, line)
	v := serve(t, nil, store, viewerapi.Config{})
	want := strings.TrimSuffix(line, "}") + `,"_batch":"b"`
	for _, path := range []string{"data", "data?format=ndjson", "rows/1"} {
		if a := v.get("/api/datasets/d/" + path); !strings.Contains(a.body, want) {
			t.Errorf("%s: %s", path, a.body)
		}
	}
}

func TestEveryErrorIsAProblemDocument(t *testing.T) {
	store := mem.New()
	put(t, store, "example", "b", 0, `{"id":"1"}`)
	annotation(t, store, "lang", "example", "b", 0, `{"id":"1","_batch":"b","data":{}}`)
	v := serve(t, nil, store, viewerapi.Config{})
	for _, c := range []struct {
		method, path string
		status       int
		want         string // in the body
	}{
		{"GET", "/api/datasets/exmaple", 404, `"nearest":"example"`},
		{"GET", "/api/datasets/exmaple/schema", 404, `"nearest":"example"`},
		{"GET", "/api/datasets/exmaple/data", 404, `"nearest":"example"`},
		{"GET", "/api/datasets/exmaple/data?format=ndjson", 404, `"nearest":"example"`},
		{"GET", "/api/datasets/exmaple/data?format=csv", 404, `"nearest":"example"`},
		{"GET", "/api/datasets/example/data?batch=c", 404, `"nearest":"b"`},
		{"GET", "/api/datasets/example/rows/2", 404, "there is no row"},
		{"GET", "/api/datasets/_x", 400, "must not start with _"},
		{"GET", "/api/datasets/a%2Fb", 400, "must not contain /"},
		{"GET", "/api/datasets/%ff", 400, "UTF-8"},
		{"GET", "/api/datasets/example/data?batch=_x", 400, "must not start with _"},
		{"GET", "/api/datasets/example/data?limit=1001", 400, "1 to 1000"},
		{"GET", "/api/datasets/example/data?limit=-1", 400, "1 to 1000"},
		{"GET", "/api/datasets/example/data?limit=ten", 400, "ten"},
		{"GET", "/api/datasets/example/data?cursor=alien", 400, "cursor"},
		{"GET", "/api/datasets/example/data?limt=10", 400, `did you mean \"limit\"`},
		{"GET", "/api/datasets/example/data?a;b", 400, "parameters"},
		{"GET", "/api/datasets/example/data?filter=%7B%7D", 400, "filter"},
		{"GET", "/api/datasets/example/data?filter=no+filter", 400, "filter"},
		{"GET", "/api/datasets/example/data?filter=" + url.QueryEscape(`{"all":[{"column":"a","op":"eqq","value":1}]}`), 400, "all[0]"},
		{"GET", "/api/datasets/example/data?filter=" + url.QueryEscape(`{"not":{"sql":"1=1"}}`), 400, "command line"},
		{"GET", "/api/datasets/example/data?format=csv&filter=" + url.QueryEscape(`{"sql":"1=1"}`), 400, "command line"},
		{"GET", "/api/datasets/example/data?filter=" + url.QueryEscape(`{"all":[]}`) + "&filter=x", 400, "one, or none"},
		{"GET", "/api/datasets/example/data?annotators=langg", 404, `"nearest":"lang"`},
		{"GET", "/api/datasets/example/data?format=ndjson&annotators=langg", 404, `"nearest":"lang"`},
		{"GET", "/api/datasets/example/data?annotators=a.b", 400, "annotator"},
		{"GET", "/api/datasets/example/data?annotators=lang,lang", 400, "twice"},
		{"GET", "/api/datasets/example/data?annotators=%5B1%5D", 400, "JSON array"},
		{"GET", "/api/datasets/example/data?filter=" + url.QueryEscape(`{"layer":"langg","column":"x","op":"is_null"}`), 404, `"nearest":"lang"`},
		{"GET", "/api/datasets/example/data?sort=text", 400, "not available yet"},
		{"GET", "/api/datasets/example/data?sort=id:desc&format=csv", 400, "not available yet"},
		{"GET", "/api/datasets/example/data?format=xml", 400, "json, ndjson and csv"},
		{"GET", "/api/datasets/example/data?clip=x", 400, "clip"},
		{"GET", "/api/datasets/example/data?columns=%5B1", 400, "JSON array"},
		{"GET", "/api/datasets/example/count?filter=x", 400, "not available yet"},
		{"GET", "/api/datasets/example/nothing", 404, "nothing at"},
		{"GET", "/api", 404, ""},
		{"GET", "/api/nope", 404, "nothing at"},
		{"POST", "/api/datasets", 405, ""},
		{"GET", "/api/session", 405, ""},
		{"DELETE", "/api/datasets", 405, ""},
		{"GET", "/api/jobs", 500, `"request":"`},
		{"POST", "/api/jobs/nonsense/retry", 400, "KIND/DATASET/BATCH"},
		{"GET", "/assets/gone-12345678.js", 404, "no file"},
		{"GET", "/api/datasets/" + strings.Repeat("x", 40_000), 431, ""},
	} {
		t.Run(c.method+" "+c.path[:min(len(c.path), 60)], func(t *testing.T) {
			a := v.do(c.method, c.path, nil)
			p := a.problem(t)
			if a.status != c.status || !strings.Contains(a.body, c.want) {
				t.Errorf("%d %s", a.status, a.body)
			}
			if strings.Contains(a.body, "secret") || strings.Contains(a.body, "internal:") {
				t.Errorf("it tells of the inside: %s", a.body)
			}
			if p.Status >= 500 && p.Request == "" {
				t.Errorf("nothing names the request in the log: %s", a.body)
			}
			if a.header.Get("X-Content-Type-Options") != "nosniff" && c.status != 431 {
				t.Error("no nosniff")
			}
		})
	}
	for _, raw := range []string{"GET /api/datasets/%zz HTTP/1.1", "GET /api/datasets/d% HTTP/1.1", "GET /api/datasets/%2 HTTP/1.0"} {
		if got := v.raw(raw + "\r\nHost: localhost\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 400") || !strings.Contains(got, "percent-encoded") {
			t.Errorf("%s: %s", raw, got)
		}
	}
	for _, raw := range []string{"nonsense\r\n\r\n", "GET\r\n\r\n", "\x16\x03\x01\r\n\r\n", "GET / HTTP/1.1\r\nbad header\r\n\r\n"} {
		if got := v.raw(raw); !strings.Contains(got, "application/problem+json") {
			t.Errorf("%q: %q", raw, got)
		}
	}
	if got := v.raw("POST /api/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 413") || !strings.Contains(got, "application/problem+json") {
		t.Errorf("a huge body: %s", got)
	}
}

func TestATableIsDefusedAndEndsWhole(t *testing.T) {
	store := mem.New()
	put(t, store, "d", "b", 0, `{"id":"1","f":"=cmd()","n":-1.50}`, `{"id":"=2","f":"a,\"b\"\nc"}`)
	v := serve(t, nil, store, viewerapi.Config{})
	a := v.get("/api/datasets/d/data?format=csv&columns=f,n")
	if want := "id,_created_at,f,n,_batch\n1,,'=cmd(),-1.50,b\n'=2,,\"a,\"\"b\"\"\nc\",,b\n"; a.body != want {
		t.Errorf("%q", a.body)
	}
	if a.header.Get("Content-Disposition") != `attachment; filename="rows.csv"; filename*=UTF-8''d.csv` {
		t.Error(a.header.Get("Content-Disposition"))
	}
	if a := v.get("/api/datasets/d/data?format=ndjson&limit=1"); !strings.Contains(a.body, `{"type":"done","rows":1}`) {
		t.Error(a.body)
	}
}

func TestAnswersAreCompressedWhereThatHelps(t *testing.T) {
	store := mem.New()
	put(t, store, "d", "b", 0, `{"id":"1","text":"`+strings.Repeat("long ", 2000)+`"}`)
	v := serve(t, nil, store, viewerapi.Config{})
	if a := v.get("/api/datasets/d/data", "Accept-Encoding", "br;q=1, gzip;q=0.5"); a.header.Get("Content-Encoding") != "gzip" || len(a.body) > 2000 || a.header.Get("Vary") != "Accept-Encoding" {
		t.Error(a.header, len(a.body))
	}
	for _, no := range []string{"", "identity", "gzip;q=0", "gzip; q=0.0", "br"} {
		if a := v.get("/api/datasets/d/data", "Accept-Encoding", no); a.header.Get("Content-Encoding") != "" || len(a.body) < 10_000 {
			t.Errorf("%q: %v", no, a.header)
		}
	}
	if a := v.get("/api/datasets", "Accept-Encoding", "gzip"); a.header.Get("Content-Encoding") != "" {
		t.Error("a small answer is compressed")
	}
}

func TestATokenIsAskedFor(t *testing.T) {
	store := mem.New()
	put(t, store, "d", "b", 0, `{"id":"1"}`)
	v := serve(t, nil, store, viewerapi.Config{Token: "s3cret", BasePath: "/silt/", TrustedProxies: proxies(t, "127.0.0.0/8")})
	for _, path := range []string{"/silt/api/datasets", "/silt/api/datasets/d/data?format=csv", "/silt/api/jobs", "/silt/api/events", "/silt/api/nope"} {
		for _, auth := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Basic s3cret", "s3cret"} {
			if a := v.get(path, "Authorization", auth); a.status != 401 || a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s with %q: %d", path, auth, a.status)
			}
		}
	}
	if a := v.get("/silt/api/datasets", "Authorization", "bearer s3cret"); a.status != 200 {
		t.Error(a.status, a.body)
	}
	session := func(token string, header ...string) answer {
		return v.do("POST", "/silt/api/session", strings.NewReader(`{"token":"`+token+`"}`), header...)
	}
	if a := session("wrong"); a.status != 401 || a.header.Get("Set-Cookie") != "" {
		t.Error(a.status, a.header)
	}
	a := session("s3cret")
	cookie := a.header.Get("Set-Cookie")
	if a.status != 204 || strings.Contains(cookie, "s3cret") {
		t.Fatal(a.status, cookie)
	}
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "path=/silt/"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("%s: no %s", cookie, want)
		}
	}
	if strings.Contains(cookie, "secure") {
		t.Error("a cookie of plain HTTP would never come back:", cookie)
	}
	if c := session("s3cret", "X-Forwarded-Proto", "https").header.Get("Set-Cookie"); !strings.Contains(c, "secure") {
		t.Error("behind TLS:", c)
	}
	value, _, _ := strings.Cut(cookie, ";")
	if a := v.get("/silt/api/datasets/d/data?format=csv", "Cookie", value); a.status != 200 {
		t.Error(a.status, a.body)
	}
	for _, forged := range []string{value + "0", strings.Replace(value, "=1", "=9", 1), "siltstone_session=", "siltstone_session=s3cret"} {
		if a := v.get("/silt/api/datasets", "Cookie", forged); a.status != 401 {
			t.Errorf("%s: %d", forged, a.status)
		}
	}
	for _, open := range []string{"/silt/", "/silt/icon.svg", "/healthz", "/metrics"} {
		if a := v.get(open); a.status != 200 {
			t.Errorf("%s: %d", open, a.status)
		}
	}
}

func TestOtherSitesCannotAct(t *testing.T) {
	v := serve(t, nil, mem.New(), viewerapi.Config{TrustedProxies: proxies(t, "127.0.0.1")})
	untrusting := serve(t, nil, mem.New(), viewerapi.Config{})
	own := strings.TrimPrefix(v.url, "http://")
	for _, c := range []struct {
		header []string
		status int
	}{
		{nil, 400},
		{[]string{"Sec-Fetch-Site", "same-origin"}, 400},
		{[]string{"Sec-Fetch-Site", "cross-site"}, 403},
		{[]string{"Sec-Fetch-Site", "same-site"}, 403},
		{[]string{"Origin", "http://evil.example"}, 403},
		{[]string{"Origin", "null"}, 403},
		{[]string{"Origin", "http://" + own}, 400},
		{[]string{"Origin", "https://viewer.example", "X-Forwarded-Host", "viewer.example"}, 400},
	} {
		if a := v.do("POST", "/api/jobs/x/retry", nil, c.header...); a.status != c.status {
			t.Errorf("%q: %d, want %d", c.header, a.status, c.status)
		}
	}
	if a := untrusting.do("POST", "/api/jobs/x/retry", nil, "Origin", "https://viewer.example", "X-Forwarded-Host", "viewer.example"); a.status != 403 {
		t.Error("a stranger's forwarded header is believed")
	}
}

func TestThePageIsServedUnderItsBase(t *testing.T) {
	for _, base := range []string{"", "/silt"} {
		v := serve(t, nil, mem.New(), viewerapi.Config{BasePath: base})
		a := v.get(base + "/")
		if a.status != 200 || !strings.Contains(a.body, `<base href="`+base+`/">`) || a.header.Get("Content-Type") != "text/html; charset=utf-8" || a.header.Get("Cache-Control") != "no-cache" {
			t.Error(a)
		}
		if csp := a.header.Get("Content-Security-Policy"); !strings.Contains(csp, "script-src 'self';") || strings.Contains(csp, "unsafe-eval") {
			t.Error(csp)
		}
		for _, inside := range []string{base + "/d/some.data", base + "/settings"} {
			if b := v.get(inside); b.body != a.body {
				t.Errorf("%s: %d", inside, b.status)
			}
		}
		for _, none := range []string{base + "/assets/x.js", base + "/favicon.ico", base + "/.placeholder", base + "/assets/app-0a1b2c3d.js.gz"} {
			if b := v.get(none); b.status != 404 {
				t.Errorf("%s: %d", none, b.status)
			}
		}
		if b := v.get(base+"/", "If-None-Match", a.header.Get("ETag")); b.status != 304 || b.body != "" {
			t.Error(b)
		}
		js := base + "/assets/app-0a1b2c3d.js"
		for accept, want := range map[string]string{"": "plain();", "gzip": "gzip", "gzip, br": "brotli", "br;q=0": "plain();"} {
			b := v.get(js, "Accept-Encoding", accept)
			if b.body != want || b.header.Get("Cache-Control") != "public, max-age=31536000, immutable" || b.header.Get("Content-Type") != "text/javascript; charset=utf-8" {
				t.Errorf("%q: %v", accept, b)
			}
		}
		if b := v.do("HEAD", js, nil); b.status != 200 || b.header.Get("Content-Length") != "8" {
			t.Error(b)
		}
	}
	v := serve(t, nil, mem.New(), viewerapi.Config{BasePath: "/silt"})
	for _, path := range []string{"/", "/silt"} {
		if a := v.get(path); a.status != 302 || a.header.Get("Location") != "/silt/" {
			t.Error(path, a.status, a.header.Get("Location"))
		}
	}
	if a := v.get("/api/datasets"); a.status != 404 || !strings.Contains(a.body, "/silt/") {
		t.Error(a)
	}
	if a := v.get("/readyz"); a.body != "ops /readyz\n" {
		t.Error(a)
	}
}

func TestWrongSettingsAreRefused(t *testing.T) {
	for _, base := range []string{"silt", "/a b", "/:x", "/x*", "/api", "/api/x", "http://x/y", "/a?b"} {
		if _, err := viewerapi.New(nil, noBus{}, pageFiles, nil, viewerapi.Config{BasePath: base}, nil, nil); err == nil {
			t.Errorf("%q is taken", base)
		}
	}
	if _, err := viewerapi.New(nil, noBus{}, os.DirFS(t.TempDir()), nil, viewerapi.Config{}, nil, nil); err == nil || !strings.Contains(err.Error(), "index.html") {
		t.Error(err)
	}
	if _, err := viewerapi.ParseProxies([]string{"proxy.example"}); err == nil {
		t.Error("a name is taken for an address")
	}
}

func TestADownloadWaitsForItsReader(t *testing.T) {
	store := mem.New()
	long := strings.Repeat("x", 64<<10)
	for i := range 8 {
		var lines []string
		for j := range 8 {
			lines = append(lines, fmt.Sprintf(`{"id":"%d-%d","text":"%s"}`, i, j, long))
		}
		put(t, store, "d", "b", i, lines...)
	}
	v := serve(t, nil, store, viewerapi.Config{})
	for _, format := range []string{"ndjson", "csv&columns=text"} {
		res, err := v.http.Get(v.url + "/api/datasets/d/data?format=" + format)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if err != nil || n < 64*64<<10 {
			t.Errorf("%s: %d bytes, %v", format, n, err)
		}
		// One that goes away in the middle does not hold its place.
		for range 2 * 16 { // more than are served at once
			res, err := v.http.Get(v.url + "/api/datasets/d/data?format=" + format)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != 200 {
				t.Fatal(res.Status)
			}
			res.Body.Close()
		}
	}
}
