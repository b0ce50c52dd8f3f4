package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/siltstone-data/siltstone"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/producers"
	"github.com/siltstone-data/siltstone/query"
)

// columnsOf gives the columns of each row of the corpus, with a layer beside.
func columnsOf(t *testing.T, c siltstone.Config, annotator string) (rows []map[string]any) {
	t.Helper()
	tool, err := siltstone.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer tool.Close()
	for row, err := range tool.Export(t.Context(), "corpus", query.Annotators(annotator), query.Live()) {
		var v map[string]any
		if err == nil {
			err = json.Unmarshal(row.Raw, &v)
		}
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, v)
	}
	return rows
}

func example(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "examples", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTheExamplesAnnotate runs the annotators of examples/ as its README says.
func TestTheExamplesAnnotate(t *testing.T) {
	dir := t.TempDir()
	up := startUp(t, dir, mergeSoon...)
	rows := clauses(t, 300)
	must(t, strings.Join(rows, "\n")+"\n", "--dir", dir, "put", "corpus", "--batch", "b")
	up.settled(t, dataset.BatchID{Dataset: "corpus", Batch: "b"})
	annotate := func(name string, argv ...string) []string {
		return append([]string{"--dir", dir, "--json", "annotate", "corpus", "--annotator", name, "--concurrency", "4", "--columns", "text"}, argv...)
	}

	t.Run("words", func(t *testing.T) {
		must(t, "", annotate("words", "--", "python3", example(t, "words.py"))...)
		for _, v := range columnsOf(t, up.config(t), "words") {
			words := strings.Fields(v["text"].(string))
			if v["words.words"] != float64(len(words)) || len(words) > 0 && !strings.Contains(v["text"].(string), v["words.longest"].(string)) {
				t.Fatalf("%v", v)
			}
		}
	})
	t.Run("jq", func(t *testing.T) {
		must(t, "", annotate("size", "--", "jq", "-c", "--unbuffered", "{data: {chars: (.data.text | length)}}")...)
		for _, v := range columnsOf(t, up.config(t), "size") {
			if v["size.chars"] != float64(len([]rune(v["text"].(string)))) {
				t.Fatalf("%v", v)
			}
		}
	})
	t.Run("ask_llm", func(t *testing.T) {
		var asked atomic.Int64
		llm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n := asked.Add(1); n%10 == 0 && n <= 300 {
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			fmt.Fprint(w, `{"choices":[{"message":{"content":"{\"topic\":\"jargon\",\"quality\":0.5}"}}],"usage":{"prompt_tokens":1000,"completion_tokens":100}}`)
		}))
		defer llm.Close()
		cmd := command(t, annotate("topic", "--", "python3", example(t, "ask_llm.py"))...)
		cmd.Env = append(cmd.Env, "LLM_URL="+llm.URL)
		out, err := cmd.Output()
		var res producers.AnnotateResult
		if jerr := json.Unmarshal(out, &res); jerr != nil {
			t.Fatal(err, jerr)
		}
		if cmd.ProcessState.ExitCode() != exitPartial || res.Rows != 270 || res.Failed != 30 || len(res.Reasons) != 1 || res.Reasons[0].Text != "HTTP 429" {
			t.Fatalf("exit %d, %s", cmd.ProcessState.ExitCode(), out)
		}
		// The next run asks about the rest alone, and stops when the money is spent.
		cmd = command(t, annotate("topic", "--budget", "cost_usd=0.002", "--", "python3", example(t, "ask_llm.py"))...)
		cmd.Env = append(cmd.Env, "LLM_URL="+llm.URL)
		if out, err = cmd.Output(); err != nil || json.Unmarshal(out, &res) != nil {
			t.Fatalf("%v, %s", err, out)
		}
		if res.Stopped != producers.StoppedByBudget || res.Rows < 15 || res.Rows > 15+4 || res.Spent == nil || *res.Spent < 0.002 {
			t.Fatalf("%s", out)
		}
		for _, v := range columnsOf(t, up.config(t), "topic") {
			if topic, there := v["topic.topic"]; there && (topic != "jargon" || v["topic.quality"] != 0.5) {
				t.Fatalf("%v", v)
			}
		}
	})
}
