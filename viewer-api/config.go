package viewerapi

import (
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"strings"
)

// Config holds the settings of a Server.
type Config struct {
	Token    string // asked for by every call below /api; empty: none is
	BasePath string // where a proxy in front puts the viewer, "/silt"; empty: at the root
	// TrustedProxies are the addresses of proxies whose forwarded headers are
	// believed.
	TrustedProxies []netip.Prefix
	// AllowedHosts are further names under which browsers may ask a server that
	// listens on this machine alone, and asks for no token.
	AllowedHosts []string
	LogTimings   bool   // log each request with the time it took
	WorkDir      string // for downloads whose columns are not known in advance
	Leases       Leases // for /api/locks; nil: it answers 501
}

// Validate names the setting that is wrong, if one is.
func (c Config) Validate() error {
	_, err := c.withDefaults()
	return err
}

// withDefaults checks a configuration and brings it into one form.
func (c Config) withDefaults() (Config, error) {
	base, err := cleanBase(c.BasePath)
	if err != nil {
		return c, err
	}
	c.BasePath = base
	for _, name := range c.AllowedHosts {
		if err := checkHost(name); err != nil {
			return c, err
		}
	}
	return c, nil
}

// cleanBase gives a base path with a leading slash and without one at its end,
// or "" for the root.
func cleanBase(p string) (string, error) {
	if p == "" || p == "/" {
		return "", nil
	}
	u, err := url.Parse(p)
	if err != nil || u.Path != p || !strings.HasPrefix(p, "/") || strings.ContainsAny(p, ":*+?{}<>\"'& \\") {
		return "", fmt.Errorf("base path %q: want a plain path that begins with a slash, such as /silt", p)
	}
	clean := path.Clean(p)
	if clean == "/" {
		return "", nil
	}
	if clean == "/api" || strings.HasPrefix(clean, "/api/") {
		return "", fmt.Errorf("base path %q: /api is taken", p)
	}
	return clean, nil
}

// ParseProxies reads addresses and networks of trusted proxies: "10.0.0.0/8",
// "127.0.0.1".
func ParseProxies(list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, s := range list {
		if p, err := netip.ParsePrefix(s); err == nil {
			out = append(out, p.Masked())
			continue
		}
		a, err := netip.ParseAddr(s)
		if err != nil {
			return nil, fmt.Errorf("trusted proxy %q: want an address or a network, such as 10.0.0.0/8", s)
		}
		out = append(out, netip.PrefixFrom(a, a.BitLen()))
	}
	return out, nil
}
