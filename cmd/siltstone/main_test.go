package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// The test binary is also the program: started with argsEnv set it runs main
// with those arguments, so that tests can start, kill and restart real
// processes of the code at hand.
const (
	argsEnv   = "SILTSTONE_TEST_ARGS"
	notifyEnv = "SILTSTONE_TEST_NOTIFY" // what becomes of the store's notifications
)

func TestMain(m *testing.M) {
	raw, child := os.LookupEnv(argsEnv)
	if len(os.Args) == 2 && os.Args[1] == asAnnotator {
		var a testAnnotator
		if err := errors.Join(json.Unmarshal([]byte(os.Getenv(annotatorEnv)), &a), a.run(os.Stdin, os.Stdout)); err != nil {
			panic(err)
		}
		return
	}
	if !child {
		os.Exit(m.Run())
	}
	var args []string
	if err := json.Unmarshal([]byte(raw), &args); err != nil {
		panic(err)
	}
	if mode := os.Getenv(notifyEnv); mode != "" {
		notifyVia = disturb(mode)
	}
	if err := exportAsTold(); err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, args, os.Stdin, os.Stdout, os.Stderr))
}

// command is a siltstone process that is not started yet.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Dir = t.TempDir() // no .env of this folder
	cmd.Env = append(cleanEnv(), argsEnv+"="+string(raw))
	return cmd
}

// cleanEnv is the environment without the settings of whoever runs the tests.
func cleanEnv() []string {
	env := []string{"LOG_LEVEL=warn"}
	for _, name := range []string{"PATH", "HOME", "TMPDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// result is what a finished command left.
type result struct {
	code           int
	stdout, stderr string
}

// finished runs a command to its end.
func finished(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	cmd := command(t, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewBufferString(stdin), &out, &errs
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// must is finished for commands that have to succeed.
func must(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	r := finished(t, stdin, args...)
	if r.code != 0 {
		t.Fatalf("siltstone %v: exit %d\n%s%s", args, r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

// disturb makes a store's notifications go wrong in the named way.
func disturb(mode string) func(notifyFunc) notifyFunc {
	return func(next notifyFunc) notifyFunc {
		switch mode {
		case "off":
			return func(context.Context, []byte) error { return nil }
		case "doubled":
			return func(ctx context.Context, p []byte) error {
				if err := next(ctx, p); err != nil {
					return err
				}
				return next(ctx, p)
			}
		case "reversed":
			return reversed(next)
		}
		panic(fmt.Sprintf("unknown way to disturb notifications: %q", mode))
	}
}

func TestArgumentsAreTakenByteForByte(t *testing.T) {
	t.Chdir(t.TempDir()) // no .env of this folder
	t.Setenv("S3_BUCKET", "b")
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"put", "d\xff", "--batch", "b"}, `"d\xff" is not valid UTF-8`},
		{[]string{"put", "d", "--batch", "b\xff"}, `"b\xff" is not valid UTF-8`},
		{[]string{"put", "d", "--batch", "b", "--dedup", "c\xff"}, `"c\xff": no row has that column`},
		{[]string{"put", "d", "--batch", "b", "caf\xe9.jsonl"}, "stat caf\xe9.jsonl: no such file"},
		{[]string{"export", "d", "--batch", "b\xff"}, `"b\xff" is not valid UTF-8`},
		{[]string{"events", "d\xff"}, `"d\xff" is not valid UTF-8`},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), tc.args, strings.NewReader(""), &out, &errs)
		if code != exitUsage || !strings.Contains(errs.String(), tc.want) {
			t.Errorf("%q: exit %d, %q", tc.args, code, errs.String())
		}
	}
}

func TestAnInterruptedCommandEndsAsShellsExpect(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("S3_BUCKET", "b")
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{{"export", "d"}, {"verify", "d"}, {"ls"}, {"merge", "d"}, {"describe", "d"}} {
		var out, errs bytes.Buffer
		if code := run(ctx, args, strings.NewReader(""), &out, &errs); code != exitInterrupted || errs.Len() == 0 {
			t.Errorf("%q: exit %d, %q", args, code, errs.String())
		}
	}
}
