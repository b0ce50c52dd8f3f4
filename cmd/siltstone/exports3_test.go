package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/s3"
)

func TestExportWritesAnObjectThatAppearsWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	up := startUp(t, dir)
	must(t, `{"id":"a","v":1}`+"\n"+`{"id":"b"}`+"\n", "--dir", dir, "put", "d", "--batch", "b", "-")
	must(t, "", "--dir", dir, "merge", "d")
	bucket := up.config(t).Bucket
	url := "s3://" + bucket + "/_exports/rows 1.ndjson"
	export := func(args ...string) result {
		return finished(t, "", append([]string{"--dir", dir, "export", "d"}, args...)...)
	}
	read := func(key string) string {
		body, _, err := objstore.ReadAll(t.Context(), up.store(t), key)
		if errors.Is(err, objstore.ErrNotFound) {
			return ""
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	if r := export("-o", url); r.code != 0 {
		t.Fatal(r.stderr)
	}
	rows := read("_exports/rows 1.ndjson")
	if strings.Count(rows, "\n") != 2 || rows != must(t, "", "--dir", dir, "export", "d") {
		t.Errorf("%q", rows)
	}
	if sum := read("_exports/rows 1.ndjson" + sumSuffix); sum != sha256Of([]byte(rows))+"  rows 1.ndjson\n" {
		t.Errorf("%q", sum)
	}
	manifest := read("_exports/rows 1.ndjson" + manifestSuffix)
	if !strings.Contains(manifest, sha256Of([]byte(rows))) {
		t.Error(manifest)
	}
	if r := export("-o", url, "--limit", "1"); r.code != exitRefused || !strings.Contains(r.stderr, "--overwrite") {
		t.Errorf("%d %s", r.code, r.stderr)
	}
	if got := read("_exports/rows 1.ndjson"); got != rows {
		t.Errorf("%q", got)
	}
	if r := export("-o", url, "--limit", "1", "--overwrite"); r.code != 0 {
		t.Error(r.stderr)
	}
	if got := read("_exports/rows 1.ndjson"); strings.Count(got, "\n") != 1 || read("_exports/rows 1.ndjson"+manifestSuffix) == manifest {
		t.Errorf("%q", got)
	}
	for url, says := range map[string]string{
		"s3://" + bucket + "/d/b/manifest.yaml": "write below s3://" + bucket + "/_exports/",
		"s3://" + bucket + "/x.ndjson":          "datasets lie there",
	} {
		if r := export("-o", url); r.code != exitUsage || !strings.Contains(r.stderr, says) {
			t.Errorf("%s: %d %s", url, r.code, r.stderr)
		}
	}
	if r := export("-o", "s3://no-such-bucket/x.ndjson"); r.code != exitFailed || !strings.Contains(r.stderr, "no-such-bucket") {
		t.Errorf("%d %s", r.code, r.stderr)
	}
	if out := must(t, "", "--dir", dir, "ls"); strings.Contains(out, "_exports") {
		t.Error(out)
	}
}

// TestAnObjectThatSomebodyWritesMeanwhileStays: the upload asks again whether the
// key is free.
func TestAnObjectThatSomebodyWritesMeanwhileStays(t *testing.T) {
	dir := t.TempDir()
	c := startUp(t, dir).config(t)
	log := slog.New(slog.DiscardHandler)
	client, err := s3.Open(t.Context(), s3.Config{Bucket: c.Bucket, Endpoint: c.Endpoint, Region: c.Region, AccessKey: c.AccessKey, SecretKey: c.SecretKey}, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	a := &app{settings: settings{Config: c}, client: client, registry: prometheus.NewRegistry(), log: log, workDir: t.TempDir()}
	out, err := createObject(t.Context(), a, "s3://"+c.Bucket+"/_exports/x", false)
	if err != nil {
		t.Fatal(err)
	}
	defer out.discard()
	if _, err := out.WriteString("mine"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(t.Context(), "_exports/x", []byte("theirs"), objstore.IfAbsent()); err != nil {
		t.Fatal(err)
	}
	var coded *exitError
	if err := out.commit(); !errors.As(err, &coded) || coded.code != exitRefused || !errors.Is(err, errExists) {
		t.Error(err)
	}
	if body, _, err := objstore.ReadAll(t.Context(), client, "_exports/x"); string(body) != "theirs" || err != nil {
		t.Errorf("%q %v", body, err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	gone, err := createObject(ctx, a, "s3://"+c.Bucket+"/_exports/y", false)
	if err != nil {
		t.Fatal(err)
	}
	defer gone.discard()
	cancel()
	if err := gone.commit(); err == nil {
		t.Error("a cancelled upload succeeded")
	}
	if _, _, err := objstore.ReadAll(t.Context(), client, "_exports/y"); !errors.Is(err, objstore.ErrNotFound) {
		t.Error(err)
	}
}
