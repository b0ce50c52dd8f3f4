package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/embedded"
	"github.com/siltstone-data/siltstone/objstore/s3"
)

const secret = "benchmark"

// serveStore serves the embedded store over a folder and says where, until its
// input ends.
func serveStore(ctx context.Context, dir string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	s, err := embedded.Open(ctx, embedded.Config{Dir: dir, Bucket: theDataset, AccessKey: secret, SecretKey: secret}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	fmt.Println(s.Endpoint())
	return s.Run(ctx)
}

// server is the embedded store in a process of its own.
type server struct {
	cmd      *exec.Cmd
	endpoint string
}

func startServer(ctx context.Context, self, dir string) (*server, error) {
	cmd := exec.CommandContext(ctx, self, "child", "server", dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the store does not say where it is: %w", err), cmd.Process.Kill(), cmd.Wait())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return &server{cmd: cmd, endpoint: strings.TrimSpace(line)}, nil
}

func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.cmd.Wait()
}

// cpu is what the server has used so far.
func (s *server) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, errors.New("no such /proc/PID/stat as on Linux")
	}
	ticks := int64(0)
	for _, f := range fields[11:13] { // utime and stime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100, nil
}

func (s *server) env() []string {
	return []string{
		"S3_BUCKET=" + theDataset, "S3_PREFIX=", "AWS_ENDPOINT_URL=" + s.endpoint, "AWS_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID=" + secret, "AWS_SECRET_ACCESS_KEY=" + secret, "NATS_URL=", "LOG_LEVEL=error",
	}
}

// upload puts the batch of a folder into the store.
func (s *server) upload(ctx context.Context, dir string) error {
	store, err := s3.Open(ctx, s3.Config{Bucket: theDataset, Endpoint: s.endpoint, AccessKey: secret, SecretKey: secret}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return err
	}
	defer store.Close()
	from := &folder{dir: dir}
	for info, err := range from.List(ctx, theBatch.Dir(), "") {
		if err != nil {
			return err
		}
		body, err := os.ReadFile(from.path(info.Key))
		if err != nil {
			return err
		}
		if _, err := store.Put(ctx, info.Key, body, objstore.IfAbsent()); err != nil {
			return err
		}
	}
	return nil
}

// download gets the blocks of the batch.
func (s *server) download(ctx context.Context, dir string) error {
	store, err := s3.Open(ctx, s3.Config{Bucket: theDataset, Endpoint: s.endpoint, AccessKey: secret, SecretKey: secret}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return err
	}
	defer store.Close()
	for info, err := range store.List(ctx, theBatch.Dir()+"merged_", "") {
		if err != nil {
			return err
		}
		if err := save(ctx, store, info.Key, filepath.Join(dir, filepath.Base(info.Key))); err != nil {
			return err
		}
	}
	return nil
}

func save(ctx context.Context, store objstore.Store, key, path string) error {
	in, _, err := store.Get(ctx, key, objstore.Span{})
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
