package lockd

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ClientConfig holds the settings of a Client.
type ClientConfig struct {
	URL   string // of a Server
	Token string // that it wants

	Now  func() time.Time // as in Config
	HTTP *http.Client     // one of its own when nil
}

// Client gets leases from a Server. It has the methods of Leases, with the same
// outcomes, and is safe for use by many goroutines.
type Client struct {
	base  url.URL
	token string
	clock func() time.Time
	http  *http.Client
}

// NewClient prepares a Client; it sends nothing yet.
func NewClient(cfg ClientConfig) (*Client, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is no URL of a lockd, such as http://127.0.0.1:8090", cfg.URL)
	}
	c := &Client{base: *u, token: cfg.Token, clock: cfg.Now, http: cfg.HTTP}
	if c.clock == nil {
		c.clock = time.Now
	}
	if c.http == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost = maxIdle
		c.http = &http.Client{Transport: t}
	}
	return c, nil
}

// maxIdle is how many connections stay open for the next request: there is one
// host to talk to.
const maxIdle = 64

// Close gives back idle connections. The client remains usable.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) now() time.Time { return c.clock() }

// answerWithin is how long an answer may take, beyond what was asked to wait.
const answerWithin = 40 * time.Second

// Acquire takes the lease on a name: see Leases.
func (c *Client) Acquire(ctx context.Context, name, owner string, ttl, wait time.Duration, meta json.RawMessage) (*Lease, error) {
	cl := claim{name: name, owner: owner, ttl: ttl, wait: wait, meta: meta, id: rand.Text()}
	if err := cl.check(); err != nil {
		return nil, err
	}
	lease, err := c.acquire(ctx, cl)
	if err != nil {
		return nil, fmt.Errorf("acquire: %w", err)
	}
	return lease, nil
}

func (c *Client) acquire(ctx context.Context, cl claim) (*Lease, error) {
	until := c.now().Add(cl.wait)
	for try := 0; ; try++ {
		left := max(until.Sub(c.now()), 0)
		in := acquireBody{Owner: cl.owner, TTL: Seconds(cl.ttl), Wait: Seconds(left), Meta: cl.meta, ID: cl.id}
		var out grant
		start := c.now()
		err := c.call(ctx, left+answerWithin, http.MethodPost, cl.name, "/acquire", in, &out)
		if errors.Is(err, ErrUnreachable) && try < clientTries && ctx.Err() == nil {
			if pause(ctx, try) == nil { // the same id: it is the same request
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		lease := newLease(c, cl.name, cl.owner, cl.id, out.Token)
		lease.upTo(start.Add(time.Duration(out.Waited)+cl.ttl), out.ExpiresAt, seen{})
		if lease.Remaining() < cl.ttl/2 { // the answer took its time
			if err := lease.Renew(ctx, cl.ttl); err != nil {
				return nil, err
			}
		}
		return lease, nil
	}
}

// clientTries is how often a request that got no answer is sent again.
const clientTries = 5

// Renew renews the lease that has the token.
func (c *Client) Renew(ctx context.Context, name string, token int64, ttl time.Duration) (Status, error) {
	if err := checkTTL(ttl); err != nil {
		return Status{}, err
	}
	st := Status{Name: name, State: Held, Token: token, TTL: Seconds(ttl)}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	out, _, err := c.prolong(ctx, name, token, ttl)
	if err != nil {
		return Status{}, fmt.Errorf("renew: %w", err)
	}
	at := out.ExpiresAt
	st.Owner, st.ExpiresAt, st.RenewedAt, st.ExpiresIn = out.Owner, &at, at.Add(-ttl), Seconds(ttl)
	return st, nil
}

// prolong sends a renewal until it is answered or ctx ends.
func (c *Client) prolong(ctx context.Context, name string, token int64, ttl time.Duration) (out grant, start time.Time, err error) {
	for try := 0; ; try++ {
		start = c.now()
		err = c.call(ctx, answerWithin, http.MethodPost, name, "/renew", renewBody{token, Seconds(ttl)}, &out)
		if !errors.Is(err, ErrUnreachable) || pause(ctx, try) != nil {
			return out, start, err
		}
	}
}

func (c *Client) renew(ctx context.Context, l *Lease, ttl time.Duration) error {
	patient, cancel := context.WithTimeout(ctx, l.patience(ttl))
	defer cancel()
	l.atMost(c.now().Add(ttl))
	out, start, err := c.prolong(patient, l.name, l.token, ttl)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
		return fmt.Errorf("renew: %w", err)
	}
	l.upTo(start.Add(ttl), out.ExpiresAt, seen{})
	return nil
}

// Release releases the lease that has the token.
func (c *Client) Release(ctx context.Context, name string, token int64) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	for try := 0; ; try++ {
		err := c.call(ctx, answerWithin, http.MethodPost, name, "/release", releaseBody{token}, nil)
		if errors.Is(err, ErrUnreachable) && try < clientTries && pause(ctx, try) == nil {
			continue
		}
		if err != nil {
			return fmt.Errorf("release: %w", err)
		}
		return nil
	}
}

func (c *Client) release(ctx context.Context, l *Lease) error {
	return c.Release(ctx, l.name, l.token)
}

// ForceRelease takes a lease from whoever has it: see Leases.
func (c *Client) ForceRelease(ctx context.Context, name, by string) (st Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	for try := 0; ; try++ { // what is free stays so: it may be sent again
		err = c.call(ctx, answerWithin, http.MethodPost, name, "/force-release", forceBody{by}, &st)
		if !errors.Is(err, ErrUnreachable) || try == clientTries || pause(ctx, try) != nil {
			return st, err
		}
	}
}

// Show describes one lease.
func (c *Client) Show(ctx context.Context, name string) (st Status, err error) {
	err = c.call(ctx, answerWithin, http.MethodGet, name, "", nil, &st)
	return st, err
}

// List describes all leases whose names start with prefix: see Leases.
func (c *Client) List(ctx context.Context, prefix string) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		u := c.url("/v1/leases")
		u.RawQuery = url.Values{"prefix": {prefix}}.Encode()
		resp, err := c.send(ctx, http.MethodGet, u, nil)
		if err != nil {
			yield(Status{}, err)
			return
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			yield(Status{}, refusal(resp, ""))
			return
		}
		dec := json.NewDecoder(resp.Body)
		for range 3 { // { "leases" [
			if _, err := dec.Token(); err != nil {
				yield(Status{}, unreachable(err))
				return
			}
		}
		for dec.More() {
			var st Status
			if err := dec.Decode(&st); err != nil {
				yield(Status{}, unreachable(err))
				return
			}
			if !yield(st, nil) {
				return
			}
		}
		if _, err := dec.Token(); err != nil {
			yield(Status{}, unreachable(fmt.Errorf("the list broke off: %w", err)))
		}
	}
}

// url is that of a path below the server's.
func (c *Client) url(path string) *url.URL {
	u := c.base
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/")+path, ""
	return &u
}

// call sends one request about a lease and reads the answer into out.
func (c *Client) call(ctx context.Context, within time.Duration, method, name, verb string, in, out any) error {
	if err := CheckName(name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	resp, err := c.send(ctx, method, c.url("/v1/leases/"+name+verb), in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusal(resp, name)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && out != nil {
		err = json.Unmarshal(b, out)
	}
	if err != nil {
		return unreachable(fmt.Errorf("read lockd's answer: %w", err))
	}
	return nil
}

func (c *Client) send(ctx context.Context, method string, u *url.URL, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, unreachable(fmt.Errorf("ask lockd: %w", err))
	}
	return resp, nil
}

// refusal turns an answer that is no 200 back into what it means.
func refusal(resp *http.Response, name string) error {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	var p problem
	if json.Unmarshal(b, &p) != nil {
		p = problem{Detail: "it says " + resp.Status}
	}
	detail := errors.New("lockd: " + cmp.Or(p.Detail, resp.Status))
	switch {
	case resp.StatusCode == http.StatusConflict && p.HeldBy != "":
		h := &HeldError{Name: name, HeldBy: p.HeldBy}
		if p.ExpiresAt != nil && p.ExpiresIn != nil {
			h.ExpiresAt, h.In = *p.ExpiresAt, time.Duration(*p.ExpiresIn)
		}
		return h
	case resp.StatusCode == http.StatusConflict:
		return &LostError{Name: name, Token: p.Token, Why: p.Detail}
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%w: %w", ErrDenied, detail)
	case resp.StatusCode == http.StatusNotFound && p.Name != "":
		return fmt.Errorf("%w: %s", ErrNoLease, name)
	case resp.StatusCode == http.StatusBadRequest, resp.StatusCode == http.StatusRequestEntityTooLarge:
		return fmt.Errorf("%w: %w", ErrInvalid, detail)
	case resp.StatusCode == http.StatusUnprocessableEntity, resp.StatusCode == http.StatusNotImplemented:
		return detail // asking again changes nothing
	case resp.StatusCode/100 != 5 && resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusRequestTimeout:
		return fmt.Errorf("%w: %s is answered with %s; look at LOCKD_URL", ErrNoLockd, resp.Request.URL.Redacted(), resp.Status)
	}
	return unreachable(detail)
}
