package lockd_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/siltstone-data/siltstone/lockd"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

// FuzzRequests sends what nobody would: every answer is one that is documented,
// a refused request writes nothing, and what is written has the name of a lease.
func FuzzRequests(f *testing.F) {
	for _, body := range []string{
		`{"owner":"me","ttl_s":60}`, `{"owner":"me","ttl_s":60,"wait_s":1,"meta":{"a":[1]},"id":"x"}`, `{"token":1,"ttl_s":60}`, `{"token":1}`,
		`{"by":"me"}`, `null`, `{}x`, `{"ttl_s":1e400}`, `{"owner":"\ud800","ttl_s":60}`, ``, `[`, `{"owner":"me","owner":"you","ttl_s":1}`,
	} {
		for _, path := range []string{"_locks/x/acquire", "_locks/x/renew", "_locks/x/release", "_locks/x/force-release", "D/annotations/A/.temp/.lock/acquire", "_locks/../D/acquire", "/", ""} {
			f.Add(path, body)
		}
	}
	documented := map[int]bool{200: true, 400: true, 404: true, 405: true, 409: true, 413: true}
	f.Fuzz(func(t *testing.T, path, body string) {
		store := mem.New()
		h := lockd.NewServer(lockd.New(store, lockd.Config{Trusted: true}), nil, lockd.ServerConfig{}, slog.New(slog.DiscardHandler)).Handler()
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://lockd/", strings.NewReader(body))
		req.URL = &url.URL{Scheme: "http", Host: "lockd", Path: "/v1/leases/" + path}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if !documented[w.Code] || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%q %q: %d %s", path, body, w.Code, w.Body)
		}
		for info, err := range store.List(t.Context(), "", "") {
			if err != nil {
				t.Fatal(err)
			}
			if err := lockd.CheckName(info.Key); err != nil || w.Code != http.StatusOK {
				t.Errorf("%q %q: %d, and %q was written: %v", path, body, w.Code, info.Key, err)
			}
		}
	})
}
