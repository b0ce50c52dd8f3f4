// Command convert measures what it takes to bring a parquet file of an older
// tool into blocks: above all that the memory does not grow with the file, or
// with its row groups.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	_ "github.com/duckdb/duckdb-go/v2"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/embedded"
	"github.com/siltstone-data/siltstone/objstore/s3"
)

const (
	bucket = "bench"
	secret = "benchmark"
	// rowBytes is about what a row of the files takes.
	rowBytes = 1850
)

// file is one that is converted.
type file struct {
	name  string
	mb    int
	group int // rows of a row group
}

func main() {
	siltstone := flag.String("siltstone", "bin/siltstone", "the built program")
	mb := flag.Int("mb", 2000, "size of the large files")
	dir := flag.String("dir", "", "where to work; five times as much as a large file (a folder of its own in the system's when empty)")
	flag.Parse()
	if flag.Arg(0) == "make" { // in a process of its own: a child's peak begins with what its parent has
		var f file
		if _, err := fmt.Sscan(flag.Arg(2), &f.mb, &f.group); err != nil {
			fmt.Fprintln(os.Stderr, "convert:", err)
			os.Exit(2)
		}
		if err := f.write(context.Background(), flag.Arg(1)); err != nil {
			fmt.Fprintln(os.Stderr, "convert:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(context.Background(), *siltstone, *dir, *mb); err != nil {
		fmt.Fprintln(os.Stderr, "convert:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, siltstone, dir string, mb int) (err error) {
	if siltstone, err = filepath.Abs(siltstone); err != nil {
		return err
	}
	if dir, err = os.MkdirTemp(dir, "convert-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fmt.Printf("| a merged.parquet with | MB | rows | CPU s | wall s | peak MB |\n|---|---|---|---|---|---|\n")
	const usual = 122_880 // DuckDB's own choice
	for _, f := range []file{
		{"row groups as DuckDB makes them", mb / 20, usual},
		{"row groups as DuckDB makes them", mb / 4, usual},
		{"row groups as DuckDB makes them", mb, usual},
		{"one row group", mb, 1 << 30},
		{"row groups of 2,048 rows", mb, 2048},
	} {
		if err := f.measure(ctx, siltstone, filepath.Join(dir, "one")); err != nil {
			return fmt.Errorf("%s, %d MB: %w", f.name, f.mb, err)
		}
	}
	return nil
}

// measure makes the file, puts it into a store and converts it.
func (f file) measure(ctx context.Context, siltstone, dir string) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "merged.parquet")
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, self, "make", path, fmt.Sprint(f.mb, f.group)).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	quiet := slog.New(slog.DiscardHandler)
	server, err := embedded.Open(ctx, embedded.Config{Dir: filepath.Join(dir, "s3"), Bucket: bucket, AccessKey: secret, SecretKey: secret}, quiet)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	defer func() { stop(); err = errors.Join(err, <-done) }()
	size, err := upload(ctx, server.Endpoint(), path, quiet)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, siltstone, "convert", "older")
	cmd.Env = append(os.Environ(), "S3_BUCKET="+bucket, "S3_PREFIX=", "AWS_ENDPOINT_URL="+server.Endpoint(), "AWS_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID="+secret, "AWS_SECRET_ACCESS_KEY="+secret, "NATS_URL=", "CONVERT_MAX_DATASET_BYTES=1TB", "JSONL_MERGE_MAX_DATASET_BYTES=1TB", "TMPDIR="+dir)
	out := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = out, out
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	peak := make(chan int64)
	ended := make(chan struct{})
	go func() { peak <- watchPeak(cmd.Process.Pid, ended) }()
	err = cmd.Wait()
	wall := time.Since(start)
	close(ended)
	mb := <-peak >> 20
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	fmt.Printf("| %s | %d | %d | %.1f | %.1f | %d |\n", f.name, size>>20, f.rows(),
		(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), wall.Seconds(), mb)
	return nil
}

// watchPeak gives the largest resident size of a process, as of its last look. What
// wait4 tells begins with the size of the parent, in which the store runs here.
func watchPeak(pid int, ended <-chan struct{}) (peak int64) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if _, rest, ok := strings.Cut(string(raw), "VmHWM:"); ok {
			var kb int64
			if _, err := fmt.Sscan(rest, &kb); err == nil {
				peak = max(peak, kb<<10)
			}
		}
		select {
		case <-tick.C:
		case <-ended:
			return peak
		}
	}
}

func (f file) rows() int { return f.mb << 20 / rowBytes }

// write makes the file with DuckDB.
func (f file) write(ctx context.Context, path string) (err error) {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	_, err = db.ExecContext(ctx, fmt.Sprintf(`COPY (SELECT printf('row-%%09d', i) AS id, 'en' AS lang, i * 0.5 AS score, i AS n,
		array_to_string(list_transform(range(54), j -> md5((i * 1000 + j)::VARCHAR)), ' ') AS text
		FROM range(%d) r(i)) TO '%s' (FORMAT parquet, ROW_GROUP_SIZE %d)`, f.rows(), path, f.group))
	return err
}

func upload(ctx context.Context, endpoint, path string, log *slog.Logger) (int64, error) {
	store, err := s3.Open(ctx, s3.Config{Bucket: bucket, Endpoint: endpoint, AccessKey: secret, SecretKey: secret}, log, nil)
	if err != nil {
		return 0, err
	}
	defer store.Close()
	in, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return 0, err
	}
	if _, err := store.Upload(ctx, "older/b/merged.parquet", in, info.Size(), objstore.IfAbsent()); err != nil {
		return 0, err
	}
	return info.Size(), os.Remove(path)
}
