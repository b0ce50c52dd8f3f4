// Command merge measures what a merge costs, side by side with the least that
// it could cost and with what people would use instead: rows of four writers
// that are deduplicated, brought into order and compressed. Every way is a
// process of its own, run in turns; CPU seconds are user and system time. No
// figure is printed before all results have proved the same.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

var (
	//go:embed lean.py
	leanPython string
	//go:embed plain.py
	plainPython string
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if len(os.Args) > 3 && os.Args[1] == "child" {
		err = child(ctx, os.Args[2], os.Args[3:])
	} else {
		err = compare(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "merge:", err)
		os.Exit(1)
	}
}

// child is a process under measurement.
func child(ctx context.Context, what string, args []string) error {
	switch {
	case what == "server":
		return serveStore(ctx, args[0])
	case len(args) < 2:
		return fmt.Errorf("child %s needs two folders", what)
	case what == "floor":
		return floor(args[0], filepath.Join(args[1], "floor.gz"))
	case what == "engine":
		return mergeFolder(ctx, args[0], args[1], os.Getenv("MERGE_PROFILE"))
	case what == "duckdb":
		return mergeDuckDB(ctx, args[0], args[1])
	}
	return fmt.Errorf("no child is called %s", what)
}

// contest is one run of everything.
type contest struct {
	self    string // this program
	dir     string // everything lies below it
	corpus  string
	binary  string // siltstone
	results map[string]result
	costs   map[string][]cost
}

// The ways, in the order of the table.
var ways = []string{"floor", "engine", "command", "duckdb", "lean", "plain"}

var titles = map[string]string{
	"floor":   "gzip level 1 of the same bytes, nothing else (the floor)",
	"engine":  "the engine over local files",
	"command": "`siltstone merge` over the embedded store",
	"duckdb":  "DuckDB: SQL on raw lines, ten COPY to .gz",
	"lean":    "Python that keeps lines, gzip level 1",
	"plain":   "Python with dicts and json.dumps, gzip level 6",
}

func compare(ctx context.Context) error {
	rows := flag.Int("rows", 500_000, "rows of the corpus")
	reps := flag.Int("reps", 5, "runs of the floor, the engine and the command; medians are printed")
	slow := flag.Int("slow", 1, "runs of the ways that take minutes")
	only := flag.String("only", strings.Join(ways, ","), "which ways to run")
	dir := flag.String("dir", "", "where to work; some 5 KB for each row (a folder of its own in the system's when empty)")
	binary := flag.String("siltstone", "bin/siltstone", "the built program")
	flag.Parse()
	work, err := os.MkdirTemp(*dir, "bench-merge-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c := contest{self: self, dir: work, corpus: filepath.Join(work, "corpus"), results: map[string]result{}, costs: map[string][]cost{}}
	if c.binary, err = filepath.Abs(*binary); err != nil {
		return err
	}
	made, err := generate(c.corpus, *rows)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d rows, %d bytes, %d without duplicates\n", made.rows, made.bytes, made.unique)
	for rep := range max(*reps, *slow) {
		for _, way := range ways {
			times := *reps
			if way == "duckdb" || way == "lean" || way == "plain" {
				times = *slow
			}
			if rep >= times || !strings.Contains(","+*only+",", ","+way+",") {
				continue
			}
			if err := c.run(ctx, way, made); err != nil {
				return err
			}
		}
	}
	c.print(made)
	return nil
}

// run runs one way once, and looks at what came out.
func (c *contest) run(ctx context.Context, way string, made corpus) error {
	out := filepath.Join(c.dir, "out")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(out)
	blocks := out
	var spent cost
	var err error
	switch way {
	case "floor", "duckdb":
		spent, err = measure(ctx, nil, c.self, "child", way, c.corpus, out)
	case "engine":
		// The merge deletes the chunks: it works on links to them.
		store := filepath.Join(out, "store")
		if err := linkTree(c.corpus, store); err != nil {
			return err
		}
		spent, err = measure(ctx, nil, c.self, "child", way, store, out)
		blocks = filepath.Join(store, filepath.FromSlash(theBatch.Dir()))
	case "command":
		spent, err = c.command(ctx, out)
	default:
		script := map[string]string{"lean": leanPython, "plain": plainPython}[way]
		spent, err = measure(ctx, nil, "python3", "-c", script, filepath.Join(c.corpus, theDataset, theBatchName), out)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%-8s %6.2f CPU-s %6.2f s %5d MB\n", way, spent.cpu.Seconds(), spent.wall.Seconds(), spent.rss>>20)
	c.costs[way] = append(c.costs[way], spent)
	if way == "floor" {
		return nil
	}
	got, err := readResult(blocks)
	if err != nil {
		return err
	}
	if got.rows != made.unique {
		return fmt.Errorf("%s kept %d rows of %d", way, got.rows, made.unique)
	}
	for other, r := range c.results {
		// json.dumps writes rows in another style.
		if r.ids != got.ids || r.lines != got.lines && way != "plain" && other != "plain" {
			return fmt.Errorf("%s and %s do not keep the same rows", way, other)
		}
	}
	c.results[way] = got
	return nil
}

// command merges what lies in an embedded store.
func (c *contest) command(ctx context.Context, out string) (cost, error) {
	s, err := startServer(ctx, c.self, filepath.Join(out, "s3"))
	if err != nil {
		return cost{}, err
	}
	defer s.stop()
	if err := s.upload(ctx, c.corpus); err != nil {
		return cost{}, err
	}
	before, err := s.cpu()
	if err != nil {
		return cost{}, err
	}
	env := append(s.env(), "TMPDIR="+out)
	spent, err := measure(ctx, env, c.binary, "--dir", out, "merge", theDataset+"/"+theBatchName)
	if err != nil {
		return cost{}, err
	}
	after, err := s.cpu()
	if err != nil {
		return cost{}, err
	}
	spent.server = after - before
	return spent, s.download(ctx, out)
}

// linkTree makes a folder whose files are links to those of another.
func linkTree(from, to string) error {
	out, err := exec.Command("cp", "-al", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("link %s: %w: %s", from, err, out)
	}
	return nil
}
