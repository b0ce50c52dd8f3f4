// Command latency measures how soon a stored row is seen: from the answer of
// its PUT to the event in a client, pages at random places of a small and of a
// large dataset, and events to 2,000 clients at once. It starts the built
// program on an empty folder and prints the tables of bench/README.md.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/joho/godotenv"

	"github.com/siltstone-data/siltstone"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: latency PATH-OF-SILTSTONE")
		os.Exit(2)
	}
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "latency:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, binary string) error {
	dir, err := os.MkdirTemp("", "latency")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	up, err := start(ctx, binary, dir)
	if err != nil {
		return err
	}
	defer up.stop()
	tool, err := siltstone.Open(ctx, up.config)
	if err != nil {
		return err
	}
	defer tool.Close()
	for _, measure := range []func(context.Context, *server, *siltstone.Tool) error{events, pages, crowd} {
		if err := measure(ctx, up, tool); err != nil {
			return err
		}
	}
	return nil
}

// server is the program under measurement.
type server struct {
	cmd    *exec.Cmd
	url    string
	config siltstone.Config
}

var doorURL = regexp.MustCompile(`(http://\S+)/metrics`)

func start(ctx context.Context, binary, dir string) (*server, error) {
	cmd := exec.CommandContext(ctx, binary, "--dir", dir, "up", "--listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "LOG_LEVEL=error")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{cmd: cmd}
	lines := bufio.NewScanner(stderr)
	for s.url == "" && lines.Scan() {
		if m := doorURL.FindStringSubmatch(lines.Text()); m != nil {
			s.url = m[1]
		}
	}
	if s.url == "" {
		return nil, fmt.Errorf("%s up does not say where it is", binary)
	}
	go func() {
		for lines.Scan() {
			fmt.Fprintln(os.Stderr, lines.Text())
		}
	}()
	env, err := godotenv.Read(filepath.Join(dir, "env"))
	if err != nil {
		return nil, err
	}
	s.config = siltstone.ReadConfig(func(k string) (string, bool) { v, ok := env[k]; return v, ok })
	return s, nil
}

func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.cmd.Wait()
}

// quantiles prints a row of a table; it sorts what it is given.
func quantiles(name string, took []time.Duration) {
	slices.Sort(took)
	at := func(q float64) string {
		return fmt.Sprintf("%.2f", float64(took[min(len(took)-1, int(q*float64(len(took))))])/1e6)
	}
	fmt.Printf("| %s | %d | %s | %s | %s |\n", name, len(took), at(.5), at(.95), at(.99))
}

func heading(title string) {
	fmt.Printf("\n%s\n\n| what | n | p50 ms | p95 ms | p99 ms |\n|---|---|---|---|---|\n", title)
}
