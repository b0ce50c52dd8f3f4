package viewerapi

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gofiber/fiber/v3"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/query"
)

const (
	defaultLimit = 50
	maxLimit     = 1000
	maxColumns   = 10_000

	maxAnnotators = 100
)

// pathName decodes a name in the path, exactly once: the router leaves its
// percent signs alone.
func pathName(c fiber.Ctx, param string) (string, error) {
	raw := c.Params(param)
	name, err := url.PathUnescape(raw)
	if err != nil {
		return "", badRequest("%q in the path is not percent-encoded: %v", raw, err)
	}
	return name, nil
}

func datasetName(c fiber.Ctx) (string, error) {
	name, err := pathName(c, "dataset")
	if err != nil {
		return "", err
	}
	return name, dataset.CheckDataset(name)
}

// values reads the parameters of a request, all of which must be known: one that
// was misspelled would silently give something else.
func values(c fiber.Ctx, known ...string) (url.Values, error) {
	v, err := url.ParseQuery(string(c.RequestCtx().URI().QueryString()))
	if err != nil {
		return nil, badRequest("the parameters cannot be read: %v", err)
	}
	for name, all := range v {
		if !slices.Contains(known, name) {
			if near := query.Nearest(name, known); near != "" {
				return nil, badRequest("there is no parameter %q; did you mean %q?", name, near)
			}
			return nil, badRequest("there is no parameter %q; there are %s", name, strings.Join(known, ", "))
		}
		for _, s := range all {
			if !utf8.ValidString(s) {
				return nil, badRequest("parameter %q is not valid UTF-8", name)
			}
		}
	}
	return v, nil
}

// batches are the batches asked for; nil means all.
func batches(v url.Values) ([]string, error) {
	var out []string
	for _, b := range v["batch"] {
		if err := dataset.CheckBatch(b); err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// dataParams are the parameters of /data.
type dataParams struct {
	batches, columns []string // nil: all
	annotators       []string
	where            *dataset.Filter // nil: none
	limit            int             // 0: not given
	cursor           string
	desc             bool
	clip             int
	format           string // "json", "ndjson" or "csv"
}

var dataNames = []string{"columns", "annotators", "filter", "sort", "batch", "limit", "cursor", "clip", "format"}

func parseData(v url.Values) (p dataParams, err error) {
	if p.batches, err = batches(v); err != nil {
		return p, err
	}
	if p.columns, err = columns(v); err != nil {
		return p, err
	}
	if p.annotators, err = annotators(v); err != nil {
		return p, err
	}
	if p.where, err = filter(v); err != nil {
		return p, err
	}
	switch v.Get("sort") {
	case "", "id", "id:asc":
	case "id:desc":
		p.desc = true
	default:
		return p, badRequest("sort by %q: not available yet; id and id:desc are", v.Get("sort"))
	}
	p.format = "json"
	if f := v.Get("format"); f != "" {
		p.format = f
	}
	p.cursor = v.Get("cursor")
	if p.limit, err = number(v, "limit", 1, maxLimit); err != nil && p.format == "json" {
		return p, err
	}
	if p.clip, err = number(v, "clip", 0, 1<<30); err != nil {
		return p, err
	}
	switch p.format {
	case "json":
		if p.limit == 0 {
			p.limit = defaultLimit
		}
		return p, nil
	case "ndjson", "csv":
	default:
		return p, badRequest("format %q: there are json, ndjson and csv", p.format)
	}
	if p.limit, err = number(v, "limit", 1, 1<<31-1); err != nil {
		return p, err
	}
	switch {
	case p.cursor != "":
		return p, badRequest("cursor with format=%s: not available; a stream gives all rows", p.format)
	case p.desc:
		return p, badRequest("sort=id:desc with format=%s: not available yet", p.format)
	case p.clip != 0:
		return p, badRequest("clip with format=%s: not available; a stream gives whole values", p.format)
	}
	return p, nil
}

// columns reads names with commas between them or, where a name has a comma, a
// JSON array of names. nil means all columns.
func columns(v url.Values) ([]string, error) {
	if !v.Has("columns") {
		return nil, nil
	}
	out, err := names(v, "columns")
	if err == nil && len(out) > maxColumns {
		err = badRequest("%d columns, at most %d can be asked for", len(out), maxColumns)
	}
	return out, err
}

// annotators are those whose layers are asked for, written as columns are.
func annotators(v url.Values) ([]string, error) {
	out, err := names(v, "annotators")
	if err != nil {
		return nil, err
	}
	for i, a := range out {
		if err := dataset.CheckAnnotator(a); err != nil {
			return nil, err
		}
		if slices.Contains(out[:i], a) {
			return nil, badRequest("annotators: %q is named twice", a)
		}
	}
	if len(out) > maxAnnotators {
		return nil, badRequest("%d annotators, at most %d can be asked for", len(out), maxAnnotators)
	}
	return out, nil
}

func names(v url.Values, param string) ([]string, error) {
	out := []string{}
	for _, list := range v[param] {
		switch {
		case list == "":
		case list[0] == '[':
			var some []string
			if err := json.Unmarshal([]byte(list), &some); err != nil {
				return nil, badRequest(`%s: want names with commas between them, or a JSON array of names: %v`, param, err)
			}
			out = append(out, some...)
		default:
			out = append(out, strings.Split(list, ",")...)
		}
	}
	return out, nil
}

// filter is the one asked for; nil means none. An expression in SQL is for whoever
// has the machine: over HTTP it is refused.
func filter(v url.Values) (*dataset.Filter, error) {
	text := v.Get("filter")
	if text == "" {
		return nil, nil
	}
	if len(v["filter"]) > 1 {
		return nil, badRequest(`filter: one, or none; {"all":[…]} joins several`)
	}
	f, err := dataset.ParseFilter([]byte(text))
	if err != nil {
		return nil, badRequest("%v", err)
	}
	if len(f.SQL()) > 0 {
		return nil, badRequest(`filter: {"sql":…} is for the library and the command line; write it as {"column":…,"op":…,"value":…}`)
	}
	return f, nil
}

func number(v url.Values, name string, least, most int) (int, error) {
	s := v.Get(name)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		return 0, badRequest("%s %q: want a number from %d to %d", name, s, least, most)
	}
	return n, nil
}
