// Command export measures `siltstone export` of rows with two layers beside them
// and a filter on each, side by side with the Python loop that people write in its
// place: gzip, json and dicts. Both are processes of their own, run in turns on the
// same blocks, which the loop reads from the store's folder. No figure is printed
// before both have written the same bytes. It prints a table of bench/README.md.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/siltstone-data/siltstone/objstore/embedded"
	"github.com/siltstone-data/siltstone/objstore/s3"
)

var (
	binary = flag.String("siltstone", "bin/siltstone", "the program")
	rows   = flag.Int("rows", 1_000_000, "how many rows there are")
	times  = flag.Int("n", 3, "how often each is measured")
	folder = flag.String("dir", "", "keep the rows in this folder for another run")
	python = flag.Bool("python", true, "run the loop too")
)

//go:embed loop.py
var loop string

const secret = "benchmark"

var quiet = slog.New(slog.DiscardHandler)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	flag.Parse()
	err := func() error {
		if flag.Arg(0) == "store" {
			return serveStore(ctx, flag.Arg(1))
		}
		return run(ctx)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "export:", err)
		os.Exit(1)
	}
}

func serveStore(ctx context.Context, dir string) error {
	s, err := embedded.Open(ctx, embedded.Config{Dir: dir, Bucket: theDataset, AccessKey: secret, SecretKey: secret}, quiet)
	if err != nil {
		return err
	}
	fmt.Println(s.Endpoint())
	return s.Run(ctx)
}

func run(ctx context.Context) error {
	dir := *folder
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "export"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	store := exec.CommandContext(ctx, self, "store", dir)
	store.Cancel = func() error { return store.Process.Signal(syscall.SIGTERM) }
	store.Stderr = os.Stderr
	out, err := store.StdoutPipe()
	if err != nil {
		return err
	}
	if err := store.Start(); err != nil {
		return err
	}
	defer func() {
		_ = store.Process.Signal(syscall.SIGTERM)
		_ = store.Wait()
	}()
	endpoint, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the store does not say where it is: %w", err)
	}
	c := &contest{dir: dir, endpoint: strings.TrimSpace(endpoint), server: store.Process.Pid}
	if c.binary, err = filepath.Abs(*binary); err != nil {
		return err
	}
	client, err := s3.Open(ctx, s3.Config{Bucket: theDataset, Endpoint: c.endpoint, AccessKey: secret, SecretKey: secret}, quiet, nil)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := load(ctx, client, *rows); err != nil {
		return fmt.Errorf("make the rows: %w", err)
	}
	return c.run(ctx)
}

// contest is one run of both.
type contest struct {
	dir, endpoint, binary string
	server                int
	costs                 [2][]cost
	sums                  [2]string
}

var titles = [2]string{"`siltstone export`", "the Python loop"}

func (c *contest) run(ctx context.Context) error {
	work, err := os.MkdirTemp("", "export")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var size int64
	for range *times {
		for way := range titles {
			if way == 1 && !*python {
				continue
			}
			path := filepath.Join(work, "rows.ndjson")
			cost, err := c.measure(ctx, c.command(ctx, way, path))
			if err != nil {
				return err
			}
			c.costs[way] = append(c.costs[way], cost)
			if c.sums[way], size, err = sumOf(path); err != nil {
				return err
			}
			if c.sums[way] != c.sums[0] {
				return errors.New("the outputs differ")
			}
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	fmt.Printf("\n%d rows, two layers, a filter on each; both wrote the same %.1f MB (SHA-256 %s…).\n\n", *rows, float64(size)/1e6, c.sums[0][:12])
	fmt.Println("| what | n | CPU s | of the store | wall s | peak MB |\n|---|---|---|---|---|---|")
	for way, title := range titles {
		if len(c.costs[way]) > 0 {
			m := median(c.costs[way])
			fmt.Printf("| %s | %d | %.2f | %.2f | %.2f | %d |\n", title, len(c.costs[way]), m.cpu.Seconds(), m.server.Seconds(), m.wall.Seconds(), m.rss>>20)
		}
	}
	if *python {
		a, b := median(c.costs[1]), median(c.costs[0])
		fmt.Printf("\nThe loop takes %.2f times the time (goal: 5) and %.2f times the CPU, %.2f with the store's.\n",
			a.wall.Seconds()/b.wall.Seconds(), a.cpu.Seconds()/b.cpu.Seconds(), a.cpu.Seconds()/(b.cpu+b.server).Seconds())
	}
	return nil
}

func (c *contest) command(ctx context.Context, way int, path string) *exec.Cmd {
	if way == 1 {
		return exec.CommandContext(ctx, "python3", "-c", loop, filepath.Join(c.dir, theDataset, theDataset), path)
	}
	cmd := exec.CommandContext(ctx, c.binary, "export", theDataset, "--annotators", "words,lang", "--where", theFilter, "-o", path)
	cmd.Env = append(os.Environ(), "S3_BUCKET="+theDataset, "S3_PREFIX=", "AWS_ENDPOINT_URL="+c.endpoint, "AWS_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID="+secret, "AWS_SECRET_ACCESS_KEY="+secret, "NATS_URL=", "LOG_LEVEL=error")
	return cmd
}

func sumOf(path string) (string, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), n, err
}

// cost is what one run of a process took.
type cost struct {
	cpu, wall time.Duration
	server    time.Duration // CPU of the store meanwhile
	rss       int64         // largest, in bytes
}

func (c *contest) measure(ctx context.Context, cmd *exec.Cmd) (cost, error) {
	before, err := cpuOf(c.server)
	if err != nil {
		return cost{}, err
	}
	cmd.Stdout, cmd.Stderr = io.Discard, os.Stderr
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return cost{}, fmt.Errorf("%s: %w", cmd.Args[0], err)
	}
	out := cost{wall: time.Since(start), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	after, err := cpuOf(c.server)
	out.server = after - before
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		out.rss = usage.Maxrss << 10
	}
	return out, err
}

// cpuOf is what a process has used so far.
func cpuOf(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	var utime, stime int64
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, errors.New("no such /proc/PID/stat as on Linux")
	}
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &utime, &stime); err != nil {
		return 0, err
	}
	return time.Duration(utime+stime) * time.Second / 100, nil
}

// median of each figure by itself.
func median(costs []cost) cost {
	pick := func(of func(cost) int64) int64 {
		var all []int64
		for _, c := range costs {
			all = append(all, of(c))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	return cost{
		cpu:    time.Duration(pick(func(c cost) int64 { return int64(c.cpu) })),
		wall:   time.Duration(pick(func(c cost) int64 { return int64(c.wall) })),
		server: time.Duration(pick(func(c cost) int64 { return int64(c.server) })),
		rss:    pick(func(c cost) int64 { return c.rss }),
	}
}
