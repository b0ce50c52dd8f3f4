package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/siltstone-data/siltstone/dataset"
)

var clauseEnd = regexp.MustCompile(`[.,;:] `)

// clauses are real rows in plenty: the demo's texts, cut into pieces.
func clauses(t *testing.T, n int) []string {
	t.Helper()
	zr, err := gzip.NewReader(bytes.NewReader(demoRows))
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for sc := bufio.NewScanner(zr); len(rows) < n && sc.Scan(); {
		var entry struct{ Term, Text string }
		if err := json.Unmarshal(sc.Bytes(), &entry); err != nil {
			t.Fatal(err)
		}
		for i, s := range clauseEnd.Split(entry.Text, -1) {
			text, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			term, err := json.Marshal(entry.Term)
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, fmt.Sprintf(`{"term":%s, "n":%d.0,"text":%s}`, term, i, text))
		}
	}
	if len(rows) < n {
		t.Fatalf("the demo has only %d clauses", len(rows))
	}
	return rows[:n]
}

// TestFourShellsPutIntoOneBatchAtOnce is the main job: four processes put real
// rows into one batch, some of them in all four, and each row comes out once,
// in id order, untouched.
func TestFourShellsPutIntoOneBatchAtOnce(t *testing.T) {
	const total, shared, shells = 20_000, 500, 4
	rows := clauses(t, total)
	dir := t.TempDir()
	up := startUp(t, dir)

	var wg sync.WaitGroup
	for shell := range shells {
		mine := slices.Clone(rows[:shared])
		for i := shared + shell; i < total; i += shells {
			mine = append(mine, rows[i])
		}
		wg.Go(func() {
			r := finished(t, strings.Join(mine, "\n")+"\n", "--dir", dir, "--json", "put", "corpus", "--batch", "b 1", "--dedup", "term,n,text")
			if r.code != 0 || !strings.Contains(r.stdout, fmt.Sprintf(`"rows":%d`, len(mine))) {
				t.Errorf("shell %d: exit %d, %s%s", shell, r.code, r.stdout, r.stderr)
			}
		})
	}
	wg.Wait()
	batch := dataset.BatchID{Dataset: "corpus", Batch: "b 1"}
	up.settled(t, batch)

	want := map[string]bool{}
	for _, r := range rows {
		want[r] = true
	}
	last, seen := "", map[string]bool{}
	for line := range strings.Lines(must(t, "", "--dir", dir, "export", "corpus")) {
		row, err := dataset.ParseRow([]byte(strings.TrimSuffix(line, "\n")))
		if err != nil {
			t.Fatal(err)
		}
		if row.ID <= last {
			t.Fatalf("%s comes after %s", row.ID, last)
		}
		last = row.ID
		user := userPart(string(row.Raw))
		if !want[user] {
			t.Fatalf("a row that nobody put: %s", row.Raw)
		}
		if seen[user] {
			t.Fatalf("twice: %s", user)
		}
		seen[user] = true
	}
	if len(seen) != len(want) {
		t.Fatalf("%d rows came out, want %d", len(seen), len(want))
	}
	if out := must(t, "", "--dir", dir, "verify", "corpus"); strings.Contains(out, "PROBLEM") {
		t.Fatal(out)
	}
	otherReaders(t, filepath.Join(dir, "s3", "siltstone", batch.Dir()), len(want))
}

// userPart takes away the id and _created_at that put gave.
func userPart(line string) string {
	_, rest, _ := strings.Cut(line, `"_created_at":"`)
	_, rest, _ = strings.Cut(rest, `",`)
	return "{" + rest
}

// otherReaders reads the blocks with tools that know nothing of siltstone.
func otherReaders(t *testing.T, dir string, rows int) {
	t.Helper()
	for name, script := range map[string]string{
		"zcat and jq": `cat merged_*.jsonl.gz | zcat | jq -c .id | wc -l`,
		"python":      `python3 -c 'import gzip,glob,json;print(sum(1 for f in glob.glob("merged_*.jsonl.gz") for l in gzip.open(f) if json.loads(l)))'`,
	} {
		cmd := exec.Command("bash", "-o", "pipefail", "-c", script)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		out, err := cmd.Output()
		if err != nil || strings.TrimSpace(string(out)) != fmt.Sprint(rows) {
			t.Errorf("%s read %s rows (%v), want %d", name, bytes.TrimSpace(out), err, rows)
		}
	}
}
