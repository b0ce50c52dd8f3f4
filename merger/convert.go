package merger

import (
	"context"
	"fmt"
	"strings"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
)

// Convert brings what of a batch lies in parquet files into blocks of JSON lines:
// the files of older tools, which a merge would adopt too, and parquet blocks.
// It is a merge besides, and atomic like one. A batch without parquet files is
// left as it is, but for what a merge does. progress may be nil.
func (e *Engine) Convert(ctx context.Context, b dataset.BatchID, progress func(Progress)) (Result, error) {
	own := *e
	own.convert = true
	if progress != nil {
		own.cfg.Progress = progress
	}
	return own.Merge(ctx, b)
}

// inParquet gives the number and bytes of the blocks of a record that are
// parquet.
func inParquet(r catalog.Record) (n int, bytes int64) {
	for _, b := range r.Blocks {
		if dataset.IsParquetBlock(b.File) {
			n++
			bytes += b.Bytes
		}
	}
	return n, bytes
}

// converting tells whether the attempt writes every block anew, as JSON lines.
func (a *attempt) converting() bool {
	n, _ := inParquet(a.head.Record)
	return a.convert && n > 0
}

// Convertible is a batch with files to convert.
type Convertible struct {
	Batch dataset.BatchID
	Bytes int64 // of those files
	Files int
	Older bool   // they are another tool's
	Err   string // why nobody can tell what is to be done
}

// ConversionPlan says what of a dataset is to be converted.
type ConversionPlan struct {
	Dataset string
	Bytes   int64 // of all merged files of the dataset
	Limit   int64
	Batches []Convertible
}

// Over reports whether the dataset is too large to be converted. What older tools
// have merged of it is adopted all the same, as any merge does it.
func (p ConversionPlan) Over() bool { return p.Bytes > p.Limit }

// Due gives the batches that have something to be done.
func (p ConversionPlan) Due() []Convertible {
	if !p.Over() {
		return p.Batches
	}
	var due []Convertible
	for _, c := range p.Batches {
		if c.Older || c.Err != "" {
			due = append(due, c)
		}
	}
	return due
}

func (p ConversionPlan) pending() map[string]int64 {
	out := map[string]int64{}
	for _, c := range p.Due() {
		out[catalog.ConversionName(c.Batch)] = c.Bytes
	}
	return out
}

func (c Convertible) String() string {
	what := "parquet block"
	if c.Older {
		what = "parquet file of an older tool"
	}
	if c.Files != 1 {
		what = strings.Replace(strings.Replace(what, "block", "blocks", 1), "file", "files", 1)
	}
	return fmt.Sprintf("%s: %d %s", c.Batch, c.Files, what)
}
