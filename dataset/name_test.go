package dataset_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/siltstone-data/siltstone/dataset"
)

// oddNames are legal, and every key, token and id must carry them (B038, B039).
var oddNames = []string{
	"example", "日本語", "a+b", "50%", "x=1", `"quoted"`, "it's", "a b", "a  b", "naïve", "CON", "a.b>*", "a,b;c", "~", "-", "=", "🙂",
	"%2F", "?q=1#f", "a:b", "20261130-06", "<b>&amp;", "x_chunk_00000.jsonl", "manifest.yaml", "merged_00001", "annotations2",
	strings.Repeat("é", 100), strings.Repeat("x", 200),
}

// dotless is the part of oddNames that can name an annotator.
func dotless() (out []string) {
	for _, n := range oddNames {
		if !strings.Contains(n, ".") {
			out = append(out, n)
		}
	}
	return out
}

func TestOddNamesAreLegal(t *testing.T) {
	for _, n := range oddNames {
		if err := dataset.CheckDataset(n); err != nil {
			t.Error(err)
		}
		if err := dataset.CheckBatch(n); err != nil {
			t.Error(err)
		}
	}
	for _, n := range dotless() {
		if err := dataset.CheckAnnotator(n); err != nil {
			t.Error(err)
		}
	}
}

func TestABadNameIsRefusedWithTheRule(t *testing.T) {
	for name, rule := range map[string]string{
		"":                       "is empty",
		strings.Repeat("x", 201): "201 bytes",
		strings.Repeat("é", 101): "202 bytes",
		"a\xff":                  "UTF-8",
		"nai\u0308ve":            "NFC",
		".":                      "path element",
		"..":                     "path element",
		"_x":                     "must not start",
		".x":                     "must not start",
		"a/b":                    "must not contain /",
		`a\b`:                    "must not contain /",
		"a\nb":                   "control character",
		"a\x00":                  "control character",
		"a\u0085":                "control character",
		" a":                     "space",
		"a ":                     "space",
		"a\u3000":                "space",
	} {
		for kind, check := range map[string]func(string) error{
			"dataset": dataset.CheckDataset, "batch": dataset.CheckBatch, "annotator": dataset.CheckAnnotator,
		} {
			err := check(name)
			if !errors.Is(err, dataset.ErrName) || !strings.Contains(err.Error(), rule) && !strings.Contains(name, ".") {
				t.Errorf("%s %q: %v", kind, name, err)
			}
			if err != nil && !strings.Contains(err.Error(), kind) {
				t.Errorf("%v does not say that it is about a %s", err, kind)
			}
		}
	}
	if dataset.CheckBatch("annotations") == nil || dataset.CheckDataset("annotations") != nil {
		t.Error("only a batch cannot be named annotations")
	}
	if dataset.CheckAnnotator("a.b") == nil {
		t.Error("a dot in an annotator makes its columns ambiguous")
	}
}

func TestABatchIDReadsBack(t *testing.T) {
	for _, b := range oddBatches() {
		if got, err := dataset.ParseBatchID(b.String()); err != nil || got != b {
			t.Errorf("%s: %v, %v", b, got, err)
		}
	}
	for _, s := range []string{"", "d", "d/", "/b", "d/b/", "d/b/a/x", "d/annotations", "d/b/a.x", "_d/b", "d/b\n"} {
		if got, err := dataset.ParseBatchID(s); err == nil {
			t.Errorf("%q is %v", s, got)
		}
	}
}

// oddBatches are batches of the dataset and of layers in every odd name.
func oddBatches() (out []dataset.BatchID) {
	layers := dotless()
	for i, n := range oddNames {
		other := oddNames[(i+1)%len(oddNames)]
		out = append(out,
			dataset.BatchID{Dataset: n, Batch: other},
			dataset.BatchID{Dataset: n, Batch: other, Annotator: layers[i%len(layers)]})
	}
	return out
}
