package main

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
)

// The corpus: what four writers have put into one batch at the same time.
// Everything follows from the seed, and memory does not grow with the rows.
const (
	writers      = 4
	chunkRows    = 1000
	duplicates   = 0.05 // of the rows repeat text and source_id of an earlier one
	nonASCII     = 0.10 // of the rows have text that is not English
	seed         = 4
	vocabulary   = 30_000
	theDataset   = "bench"
	theBatchName = "b"
)

var (
	theBatch = dataset.BatchID{Dataset: theDataset, Batch: theBatchName}
	runs     = [writers]dataset.Run{"a1b2c3", "b2c3d4", "c3d4e5", "d4e5f6"}
	begin    = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
)

// corpus says what a generated batch holds.
type corpus struct {
	rows, bytes int64
	unique      int64 // rows that differ in text and source_id
}

// words are the vocabulary of the text: the commonest first, as in prose.
type words struct {
	english, other []string
	table          []int32 // a word for each part of the probability
}

func newWords() *words {
	rng := rand.New(rand.NewPCG(seed, 0))
	w := &words{}
	syllables := strings.Fields("the an re in ti on er at en st or ar al it co de ra es ro li ne ve ma ce la ta el me ri io le si ch ic di ho to om ur ca et us ll be pe")
	others := strings.Fields("über straße façade señor là été мир при день год 日本 東京 言語 数据 研究 한국 مرحبا नमस्ते ção ñan ökonomie")
	seen := map[string]bool{}
	for len(w.english) < vocabulary {
		word := ""
		for range 1 + rng.IntN(2+len(w.english)*3/vocabulary) {
			word += syllables[rng.IntN(len(syllables))]
		}
		if len(w.english) > 500 && seen[word] {
			word += syllables[rng.IntN(len(syllables))]
		}
		seen[word] = true
		w.english = append(w.english, word)
		w.other = append(w.other, word)
		if len(w.other)%4 == 0 {
			w.other[len(w.other)-1] = others[rng.IntN(len(others))] + word[:1]
		}
	}
	weights, sum := make([]float64, vocabulary), 0.0
	for i := range weights {
		weights[i] = 1 / math.Pow(float64(i)+2.7, 1.02)
		sum += weights[i]
	}
	w.table = make([]int32, 0, 1<<18)
	upTo := 0.0
	for i, x := range weights {
		upTo += x
		for float64(len(w.table)) < upTo/sum*(1<<18) && len(w.table) < 1<<18 {
			w.table = append(w.table, int32(i))
		}
	}
	return w
}

func (w *words) pick(rng *rand.Rand) int32 { return w.table[rng.IntN(len(w.table))] }

// appendText appends the text and source_id of document n.
func (w *words) appendText(dst []byte, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, uint64(n)+1))
	from := w.english
	if rng.Float64() < nonASCII {
		from = w.other
	}
	size := 943 + rng.IntN(1200)
	dst = append(dst, `"text":"`...)
	start := len(dst)
	for first := true; len(dst)-start < size; first = false {
		between := rng.IntN(240)
		switch {
		case first:
		case between < 20:
			dst = append(dst, ". "...)
		case between < 23:
			dst = append(dst, `\n`...)
		case between < 27:
			dst = append(dst, ` \"`...)
		default:
			dst = append(dst, ' ')
		}
		dst = append(dst, from[w.pick(rng)]...)
	}
	return fmt.Appendf(dst, `","source_id":"src-%06d"`, rng.IntN(200_000))
}

// generate writes the batch into a folder, as a store holds it.
func generate(dir string, rows int) (corpus, error) {
	w := newWords()
	rng := rand.New(rand.NewPCG(seed, 1<<40))
	var c corpus
	var lines [writers][]byte
	var inChunk, chunks, total [writers]int
	batchDir := filepath.Join(dir, filepath.FromSlash(strings.TrimSuffix(theBatch.Dir(), "/")))
	if err := os.MkdirAll(batchDir, 0o755); err != nil {
		return c, err
	}
	flush := func(i int) error {
		path := filepath.Join(dir, filepath.FromSlash(theBatch.ChunkKey(runs[i], chunks[i])))
		c.bytes += int64(len(lines[i]))
		err := os.WriteFile(path, lines[i], 0o644)
		lines[i], inChunk[i] = lines[i][:0], 0
		chunks[i]++
		return err
	}
	repeats := make([]bool, rows)
	langs := []string{"en", "en", "en", "de", "fr", "ja", "zh", "ru"}
	for n := range rows {
		i := rng.IntN(writers)
		at := begin.Add(time.Duration(n)*1700*time.Microsecond + time.Duration(rng.IntN(1000))*time.Microsecond)
		document := n
		if n > 100 && rng.Float64() < duplicates {
			for document = rng.IntN(n); repeats[document]; document = rng.IntN(n) {
			}
			repeats[n] = true
		} else {
			c.unique++
		}
		lines[i] = fmt.Appendf(lines[i], `{"id":"%s","_created_at":"%s",`, uuid7(at, rng), at.Format("2006-01-02T15:04:05.000000Z"))
		lines[i] = w.appendText(lines[i], document)
		lines[i] = fmt.Appendf(lines[i], `,"lang":"%s","score":%.6f,"n_tokens":%d,"url":"https://example.org/%x/%d","metadata":{"author":{"name":"user%d","karma":%d},"tags":["t%d","t%d"],"depth":%d}}`+"\n",
			langs[rng.IntN(len(langs))], rng.Float64(), 200+rng.IntN(400), rng.Uint32(), n, rng.IntN(50_000), rng.IntN(100_000), rng.IntN(300), rng.IntN(300), rng.IntN(9))
		inChunk[i]++
		total[i]++
		c.rows++
		if inChunk[i] == chunkRows {
			if err := flush(i); err != nil {
				return c, err
			}
		}
	}
	for i, run := range runs {
		if inChunk[i] > 0 {
			if err := flush(i); err != nil {
				return c, err
			}
		}
		if err := writeManifest(dir, run, chunks[i], total[i]); err != nil {
			return c, err
		}
	}
	return c, nil
}

func uuid7(at time.Time, rng *rand.Rand) string {
	ms := uint64(at.UnixMilli())
	r := rng.Uint64()
	return fmt.Sprintf("%08x-%04x-7%03x-%04x-%012x", ms>>16, ms&0xffff, r&0xfff, 0x8000|r>>12&0x3fff, r>>26|rng.Uint64()<<38&(1<<48-1))
}

func writeManifest(dir string, run dataset.Run, chunks, rows int) error {
	f, err := os.Create(filepath.Join(dir, filepath.FromSlash(theBatch.RunKey(run))))
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	fmt.Fprintf(out, `{"version":1,"run":"%s","dataset":"%s","batch":"%s","annotator":null,"deduplicate_on":["text","source_id"],`+
		`"writer":"bench","started_at":"2026-03-01T09:00:00Z","state":"completed","chunks":%d,"rows":%d,"bytes":0,"updated_at":"2026-03-01T10:00:00Z"}`,
		run, theDataset, theBatchName, chunks, rows)
	if err := out.Flush(); err != nil {
		return err
	}
	return f.Close()
}
