package viewerapi_test

import (
	"net/netip"
	"testing"

	viewerapi "github.com/siltstone-data/siltstone/viewer-api"
)

func proxies(t testing.TB, list ...string) []netip.Prefix {
	t.Helper()
	p, err := viewerapi.ParseProxies(list)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
