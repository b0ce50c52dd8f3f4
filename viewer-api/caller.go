package viewerapi

import (
	"net/netip"
	"strings"

	"github.com/gofiber/fiber/v3"
)

// caller is who makes a request.
type caller struct {
	addr   string
	secure bool   // it came over TLS, as far as we or a trusted proxy know
	host   string // as the browser wrote it
}

// caller looks behind the proxies that are trusted, and no further: what a
// stranger writes into a forwarded header counts for nothing.
func (s *Server) caller(c fiber.Ctx) caller {
	out := caller{addr: c.RequestCtx().RemoteIP().String(), secure: c.RequestCtx().IsTLS(), host: c.Get(fiber.HeaderHost)}
	if !s.trusted(out.addr) {
		return out
	}
	// The header grows to the right, so the last address that is not a trusted
	// proxy's is the caller's.
	hops := strings.Split(c.Get(fiber.HeaderXForwardedFor), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		a, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		if out.addr = a.Unmap().String(); !s.trusted(out.addr) {
			break
		}
	}
	if p := last(c.Get(fiber.HeaderXForwardedProto)); p != "" {
		out.secure = strings.EqualFold(p, "https")
	}
	if h := last(c.Get(fiber.HeaderXForwardedHost)); h != "" {
		out.host = h
	}
	return out
}

// last is the last value of a list: the one that the nearest proxy wrote.
func last(list string) string {
	return strings.TrimSpace(list[strings.LastIndexByte(list, ',')+1:])
}

func (s *Server) trusted(addr string) bool {
	a, err := netip.ParseAddr(addr)
	if err != nil {
		return false
	}
	a = a.Unmap()
	for _, p := range s.cfg.TrustedProxies {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
