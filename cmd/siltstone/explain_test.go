package main

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

func TestAStoreThatCannotBeUsedNamesTheSetting(t *testing.T) {
	dir := t.TempDir()
	up := startUp(t, dir)
	must(t, `{"text":"one"}`+"\n", "--dir", dir, "put", "d", "--batch", "b")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := "http://" + l.Addr().String()
	l.Close()
	for name, c := range map[string]struct {
		env  string
		says []string
	}{
		"access key": {"AWS_ACCESS_KEY_ID=nobody", []string{"access denied", `AWS_ACCESS_KEY_ID is "nobody"`}},
		"secret":     {"AWS_SECRET_ACCESS_KEY=wrong", []string{"access denied", "AWS_SECRET_ACCESS_KEY"}},
		"bucket":     {"S3_BUCKET=nope", []string{"bucket does not exist", `S3_BUCKET is "nope"`}},
		"region":     {"AWS_REGION=eu-west-1", []string{"wrong region", `AWS_REGION is "eu-west-1"`, "us-east-1"}},
		"endpoint":   {"AWS_ENDPOINT_URL=" + dead, []string{"cannot be reached", "AWS_ENDPOINT_URL is " + dead, "`siltstone up` starts one"}},
	} {
		t.Run(name, func(t *testing.T) {
			is := up.config(t)
			secret := is.SecretKey
			for _, args := range [][]string{{"ls"}, {"export", "d", "--live"}, {"doctor"}} {
				cmd := command(t, append([]string{"--dir", dir}, args...)...)
				var out bytes.Buffer
				cmd.Env = append(cmd.Env, "S3_BUCKET="+is.Bucket, "AWS_ENDPOINT_URL="+is.Endpoint, "AWS_REGION="+is.Region,
					"AWS_ACCESS_KEY_ID="+is.AccessKey, "AWS_SECRET_ACCESS_KEY="+secret, c.env)
				cmd.Stdout, cmd.Stderr = &out, &out
				began := time.Now()
				_ = cmd.Run()
				if code := cmd.ProcessState.ExitCode(); code != exitFailed {
					t.Errorf("%v: exit %d", args, code)
				}
				for _, text := range c.says {
					if !strings.Contains(out.String(), text) {
						t.Errorf("%v: %q is not in %s", args, text, out.String())
					}
				}
				if strings.Contains(out.String(), "RequestID") || strings.Contains(out.String(), secret) {
					t.Errorf("%v: %s", args, out.String())
				}
				if took := time.Since(began); took > 30*time.Second { // 3 s on an idle machine
					t.Errorf("%v took %s", args, took)
				}
			}
		})
	}
	up.stop(syscall.SIGTERM)
}

// with is an app that reads a store.
func with(s objstore.Store) (a *app, stdout, stderr *bytes.Buffer) {
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	return &app{store: s, stdout: stdout, stderr: stderr, log: slog.New(slog.DiscardHandler)}, stdout, stderr
}

func TestTheEmptyBatchIsNotAllOfThem(t *testing.T) {
	s := mem.New()
	for _, b := range []string{"a", "b"} {
		id := dataset.BatchID{Dataset: "d", Batch: b}
		if _, err := s.Put(t.Context(), id.ChunkKey("a1b2c3", 0), []byte("{}\n"), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	empty := ""
	for name, c := range map[string]interface {
		Run(context.Context, *app) error
	}{
		"describe": &describeCmd{Target: "d", Batch: &empty},
		"merge":    &mergeCmd{Target: "d/"},
		"verify":   &verifyCmd{Target: "d/"},
		"deeper":   &verifyCmd{Target: "d/b/c"},
	} {
		a, stdout, stderr := with(s)
		if code := exitCode(c.Run(t.Context(), a), stderr); code != exitUsage || stdout.Len() > 0 {
			t.Errorf("%s: exit %d, %s%s", name, code, stdout, stderr)
		}
	}
	a, stdout, stderr := with(s)
	only := "b"
	if code := exitCode((&describeCmd{Target: "d", Batch: &only}).Run(t.Context(), a), stderr); code != 0 || !strings.HasPrefix(stdout.String(), "d/b\n") {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
	if !strings.Contains(stdout.String(), " 1 chunk, ") || !strings.Contains(stdout.String(), "0 in 0 blocks") {
		t.Error(stdout.String())
	}
}

func TestCountsAgreeWithTheirNouns(t *testing.T) {
	for want, got := range map[string]string{
		"0 rows": count(0, "row"), "1 row": count(int64(1), "row"), "2 id conflicts": count(2, "id conflict"),
		"1 batch": count(1, "batch"), "3 batches": count(3, "batch"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
