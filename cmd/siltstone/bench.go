package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

type benchCmd struct {
	Viewer benchViewerCmd `cmd:"" help:"Measure the endpoints of a running viewer."`
}

type benchViewerCmd struct {
	BaseURL string `name:"base-url" required:"" help:"Where the viewer is." placeholder:"URL"`
	Dataset string `help:"The dataset to read; without one, the largest." placeholder:"D"`
	Seconds int    `help:"How long to measure, over all endpoints." default:"10"`
}

// Help shows an example.
func (benchViewerCmd) Help() string {
	return `Asks one question at a time, as one reader does, and prints the times to the whole answer.

Example:
  siltstone bench viewer --base-url http://127.0.0.1:8080 --seconds 10`
}

// endpointTimes is one line of the result.
type endpointTimes struct {
	Endpoint string  `json:"endpoint"`
	Requests int     `json:"requests"`
	P50      float64 `json:"p50_ms"`
	P95      float64 `json:"p95_ms"`
	P99      float64 `json:"p99_ms"`
	Bytes    int64   `json:"bytes"` // of the median answer
}

// Run measures and prints.
func (c *benchViewerCmd) Run(ctx context.Context, a *app) error {
	base, err := url.Parse(c.BaseURL)
	if err != nil || base.Host == "" || c.Seconds < 1 {
		return exit(exitUsage, fmt.Errorf("want --base-url http://HOST:PORT[/PATH] and --seconds of 1 or more"))
	}
	b := &viewerBench{url: strings.TrimSuffix(base.String(), "/"), token: a.viewerToken}
	if b.dataset = c.Dataset; b.dataset == "" {
		if err := b.pick(ctx); err != nil {
			return err
		}
	}
	lines, err := b.run(ctx, time.Duration(c.Seconds)*time.Second)
	if err != nil {
		return err
	}
	if a.json {
		for _, l := range lines {
			if err := a.printJSON(l); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "requests\tp50 ms\tp95 ms\tp99 ms\tbytes\t  endpoint")
	for _, l := range lines {
		fmt.Fprintf(w, "%d\t%.1f\t%.1f\t%.1f\t%d\t  %s\n", l.Requests, l.P50, l.P95, l.P99, l.Bytes, l.Endpoint)
	}
	return w.Flush()
}

// viewerBench asks a viewer.
type viewerBench struct {
	url, token, dataset string

	cursors []string // of pages read so far, to go on from anywhere
	ids     []string
}

// pick takes the dataset with the most rows.
func (b *viewerBench) pick(ctx context.Context) error {
	var in struct {
		Datasets []struct {
			Name string
			Rows int64
		}
	}
	body, err := b.get(ctx, "/api/datasets")
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return fmt.Errorf("read the list of datasets: %w", err)
	}
	most := int64(-1)
	for _, d := range in.Datasets {
		if d.Rows > most {
			b.dataset, most = d.Name, d.Rows
		}
	}
	if most < 0 {
		return errors.New("the viewer has no dataset")
	}
	return nil
}

// endpoint is one kind of question.
type endpoint struct {
	name string
	path func() string // empty: it cannot be asked
	read func(body []byte) error
}

func (b *viewerBench) endpoints() []endpoint {
	of := "/api/datasets/" + url.PathEscape(b.dataset)
	fixed := func(p string) func() string { return func() string { return p } }
	return []endpoint{
		{"datasets", fixed("/api/datasets"), nil},
		{"dataset", fixed(of), nil},
		{"schema", fixed(of + "/schema"), nil},
		{"count", fixed(of + "/count"), nil},
		{"first page", fixed(of + "/data?limit=50&clip=400"), b.remember},
		{"newest page", fixed(of + "/data?limit=50&clip=400&sort=id:desc"), nil},
		{"page from a cursor", func() string {
			if len(b.cursors) == 0 {
				return ""
			}
			return of + "/data?limit=50&clip=400&cursor=" + url.QueryEscape(b.cursors[rand.IntN(len(b.cursors))])
		}, b.remember},
		{"row", func() string {
			if len(b.ids) == 0 {
				return ""
			}
			return of + "/rows?id=" + url.QueryEscape(b.ids[rand.IntN(len(b.ids))])
		}, nil},
	}
}

// remember keeps where a page ends and one of its rows.
func (b *viewerBench) remember(body []byte) error {
	var in struct {
		Next *string `json:"next_cursor"`
		Rows []struct {
			ID string `json:"id"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return fmt.Errorf("read a page: %w", err)
	}
	const most = 10_000
	if in.Next != nil && len(b.cursors) < most {
		b.cursors = append(b.cursors, *in.Next)
	}
	if len(in.Rows) > 0 && len(b.ids) < most {
		b.ids = append(b.ids, in.Rows[rand.IntN(len(in.Rows))].ID)
	}
	return nil
}

func (b *viewerBench) run(ctx context.Context, d time.Duration) ([]endpointTimes, error) {
	all := b.endpoints()
	took := make([][]float64, len(all))
	size := make([][]int64, len(all))
	for end := time.Now().Add(d); time.Now().Before(end); {
		for i, e := range all {
			path := e.path()
			if path == "" {
				continue
			}
			began := time.Now()
			body, err := b.get(ctx, path)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.name, err)
			}
			took[i] = append(took[i], float64(time.Since(began).Microseconds())/1000)
			size[i] = append(size[i], int64(len(body)))
			if e.read != nil {
				if err := e.read(body); err != nil {
					return nil, err
				}
			}
		}
	}
	var out []endpointTimes
	for i, e := range all {
		if n := len(took[i]); n > 0 {
			slices.Sort(took[i])
			slices.Sort(size[i])
			at := func(q int) float64 { return took[i][min(n*q/100, n-1)] }
			out = append(out, endpointTimes{e.name, n, at(50), at(95), at(99), size[i][n/2]})
		}
	}
	return out, nil
}

func (b *viewerBench) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+path, nil)
	if err != nil {
		return nil, err
	}
	if b.token != "" {
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		var p struct{ Title, Detail string }
		_ = json.Unmarshal(body, &p) // whatever it says
		return nil, fmt.Errorf("%s %s", res.Status, p.Detail)
	}
	return body, nil
}
