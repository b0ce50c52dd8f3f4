package viewerapi_test

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/siltstone-data/siltstone/objstore/mem"
	viewerapi "github.com/siltstone-data/siltstone/viewer-api"
)

// A site whose name resolves to 127.0.0.1 reads nothing
// of a viewer without a token.
func TestANameThatWasReboundIsRefused(t *testing.T) {
	store := mem.New()
	put(t, store, "d", "b", 0, `{"id":"1"}`)
	open := serve(t, nil, store, viewerapi.Config{AllowedHosts: []string{"Viewer.Example.org"}})
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(open.url, "http://"))
	for host, want := range map[string]int{
		"localhost:" + port: 200, "LOCALHOST": 200, "localhost.": 200, "silt.localhost:80": 200, "127.0.0.1:" + port: 200, "127.9.9.9": 200,
		"[::1]:" + port: 200, "[::ffff:127.0.0.1]": 200, "viewer.example.org": 200, "viewer.example.ORG.:8443": 200,
		"evil.example": 421, "evil.example:" + port: 421, "localhost.evil.example": 421, "evillocalhost": 421, "127.0.0.1.evil.example": 421,
		"0.0.0.0:" + port: 421, "10.0.0.1": 421, "[::]:" + port: 421, "sub.viewer.example.org": 421, "x": 421,
	} {
		for _, path := range []string{"/api/datasets/d/data", "/api/datasets/d/data?format=ndjson", "/", "/icon.svg", "/metrics"} {
			if a := open.get(path, "Host", host); a.status != want {
				t.Errorf("%s%s: %d, want %d: %s", host, path, a.status, want, a.body)
			} else if want == 421 && !strings.Contains(a.problem(t).Detail, "--allowed-host") {
				t.Errorf("%s: no way out: %s", host, a.body)
			}
		}
		if a := open.do(http.MethodPost, "/api/jobs/x/retry", nil, "Host", host); (a.status == 421) != (want == 421) {
			t.Errorf("%s: %d", host, a.status)
		}
	}
	if got := open.raw("GET /api/datasets HTTP/1.0\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 200") && !strings.HasPrefix(got, "HTTP/1.0 200") {
		t.Error("no browser:", got)
	}
	for name, cfg := range map[string]viewerapi.Config{
		"a token keeps them out": {Token: "s3cret"},
		"a proxy is in front":    {TrustedProxies: proxies(t, "127.0.0.1")},
	} {
		if a := serve(t, nil, store, cfg).get("/api/datasets", "Host", "viewer.example.org", "Authorization", "Bearer s3cret"); a.status != 200 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	for _, name := range []string{"", "http://x", "a b", "*.example.org", ":80"} {
		if err := (viewerapi.Config{AllowedHosts: []string{name}}).Validate(); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}
