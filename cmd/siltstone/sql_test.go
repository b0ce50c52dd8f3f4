package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/siltstone-data/siltstone"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/producers"
)

func TestExportTakesAnExpression(t *testing.T) {
	e := newExporter(t)
	e.merged(t, `{"id":"a","n":1,"text":"short"}`, `{"id":"b","n":"x","text":"a longer text"}`)
	e.wants(t, exportCmd{Where: "length(text) > 6"}, `{"id":"b","n":"x","text":"a longer text"}`+"\n")
	e.wants(t, exportCmd{Where: `{"not":{"sql":"length(text) > 6"}}`}, `{"id":"a","n":1,"text":"short"}`+"\n")
	e.wants(t, exportCmd{Where: "nope is null and text = 'short'"}, `{"id":"a","n":1,"text":"short"}`+"\n", `"nope"`)
	for _, c := range []struct{ where, want string }{
		{"lenght(text) > 6", "function lenght"},
		{"n > 0", `row "b" of batch b`},
		{"(SELECT 1) = 1", "subquery"},
		{"text = ", "syntax error"},
	} {
		if code := e.export(t, exportCmd{Where: c.where}); code != exitUsage || !strings.Contains(e.errs.String(), "--where") || !strings.Contains(e.errs.String(), c.want) {
			t.Errorf("%s: exit %d: %s, want %q", c.where, code, e.errs.String(), c.want)
		}
	}
}

func TestAnnotateTakesAnExpression(t *testing.T) {
	e := newExporter(t)
	e.merged(t, `{"id":"a","text":"short"}`, `{"id":"b","text":"a longer text"}`)
	annotate := func(text string) (ids []string, err error) {
		f, err := dataset.ParseExpr(text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = producers.Annotate(t.Context(), e.store, nil, siltstone.NewLocker(e.store, e.log), e.log, "d", "A",
			func(_ context.Context, row dataset.Row) (dataset.Annotation, error) {
				ids = append(ids, row.ID)
				return dataset.Annotation{Data: json.RawMessage("{}")}, nil
			}, producers.Where(f), producers.SQL(e.sql), producers.Concurrency(1), producers.WorkDir(t.TempDir()))
		return ids, err
	}
	if ids, err := annotate("length(text) > 6"); err != nil || !slices.Equal(ids, []string{"b"}) {
		t.Errorf("annotated are %q (%v)", ids, err)
	}
	if ids, err := annotate("now() > text"); !errors.Is(err, dataset.ErrFilter) || ids != nil {
		t.Errorf("annotated are %q (%v)", ids, err)
	}
}
