package viewerapi

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/gofiber/fiber/v3"
)

// hosts keeps other sites out of a viewer that only this machine should reach.
// A site can let its own name resolve to 127.0.0.1: to the browser, its page and
// the viewer are then one origin, and the page may read whatever it asks for. The
// name in the Host header tells such a request from one that was meant for us.
type hosts struct {
	names map[string]bool // nil: there is nothing to keep out
}

// newHosts is about a listener. Where a token is asked for, and where the
// network reaches the viewer anyway, any name will do.
func newHosts(l net.Addr, cfg Config) hosts {
	tcp, ok := l.(*net.TCPAddr)
	if !ok || !tcp.IP.IsLoopback() || cfg.Token != "" {
		return hosts{}
	}
	h := hosts{names: map[string]bool{tcp.IP.String(): true}}
	for _, name := range cfg.AllowedHosts {
		h.names[plainHost(name)] = true
	}
	return h
}

// allow reports whether a request with this Host header is meant for us. One
// without it comes from no browser.
func (h hosts) allow(header string) bool {
	if h.names == nil || header == "" {
		return true
	}
	name := plainHost(header)
	if a, err := netip.ParseAddr(name); err == nil && a.Unmap().IsLoopback() {
		return true
	}
	return h.names[name] || name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// plainHost is a host without its port, and without what two spellings of it may
// differ in.
func plainHost(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// checkHost refuses a name that no Host header can have.
func checkHost(name string) error {
	if plainHost(name) == "" || strings.ContainsAny(name, "/?#@ *\\,") {
		return fmt.Errorf("allowed host %q: want the name that a browser asks for, such as viewer.example.org", name)
	}
	return nil
}

// meant refuses requests that name another host. Those of a trusted proxy pass:
// whom it lets in is its own affair.
func (s *Server) meant(c fiber.Ctx) error {
	if host := c.Get(fiber.HeaderHost); !s.hosts.allow(host) && !s.trusted(c.RequestCtx().RemoteIP().String()) {
		return refuse(http.StatusMisdirectedRequest,
			"this viewer answers on this machine only, and %q is another name: open it as localhost, allow the name with --allowed-host, "+
				"name the proxy in front with --trusted-proxy, or set VIEWER_TOKEN", host)
	}
	return c.Next()
}
