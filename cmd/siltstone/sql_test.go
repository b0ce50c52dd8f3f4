package main

import (
	"strings"
	"testing"
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
