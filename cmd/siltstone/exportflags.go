package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/query"
)

// options reads the flags, and refuses what cannot be meant, before any I/O.
func (c *exportCmd) options(a *app) (query.Options, error) {
	if c.Output == "-" {
		c.Output = ""
	}
	o := query.Options{Dataset: c.Dataset, Batches: c.Batch, Annotators: c.Annotators, Live: c.Live, WorkDir: a.workDir, SQL: a.sql}
	if err := c.checkNames(); err != nil {
		return o, err
	}
	if c.At != "" {
		m, err := query.ParseMoment(c.At)
		if err != nil {
			return o, fmt.Errorf("--at: %w", err)
		}
		o.At = &m
	}
	if c.Where != "" {
		f, err := dataset.ParseExpr(c.Where)
		if err != nil {
			return o, fmt.Errorf("--where: %w", err)
		}
		o.Where = f
	}
	for _, text := range c.Sort {
		by, err := query.ParseSort(text)
		if err != nil {
			return o, fmt.Errorf("--sort: %w", err)
		}
		if slices.ContainsFunc(o.Sort, func(s query.SortBy) bool { return s.Column == by.Column }) {
			return o, fmt.Errorf("--sort: column %q is named twice", by.Column)
		}
		o.Sort = append(o.Sort, by)
	}
	for _, name := range c.Annotators {
		if slices.Contains(c.Columns, name+"._metadata") {
			o.Metadata = append(o.Metadata, name)
		}
	}
	return o, c.checkTogether(o)
}

func (c *exportCmd) checkNames() error {
	if err := dataset.CheckDataset(c.Dataset); err != nil {
		return err
	}
	for _, b := range c.Batch {
		if err := dataset.CheckBatch(b); err != nil {
			return err
		}
	}
	for _, name := range c.Annotators {
		if err := dataset.CheckAnnotator(name); err != nil {
			return fmt.Errorf("--annotators: %w", err)
		}
	}
	return nil
}

// checkTogether refuses flags that contradict each other.
func (c *exportCmd) checkTogether(o query.Options) error {
	switch {
	case c.At != "" && c.Live:
		return errors.New("--at and --live: live rows are those of now")
	case o.At != nil && o.At.Generation > 0 && len(c.Annotators) > 0:
		return fmt.Errorf("--at %s and --annotators: a generation counts the merges of one batch, and its layers have their own; give a time to read both", c.At)
	case c.Limit != nil && *c.Limit < 0:
		return fmt.Errorf("--limit %d: it must not be negative", *c.Limit)
	case strings.Contains(c.Output, "://") && !strings.HasPrefix(c.Output, s3Scheme):
		return fmt.Errorf("-o %s: it must be a file, or s3://BUCKET/KEY", c.Output)
	case strings.HasPrefix(c.Output, s3Scheme):
		if _, _, err := parseS3(c.Output); err != nil {
			return fmt.Errorf("-o %s: %w", c.Output, err)
		}
	case c.Overwrite:
		return errors.New("--overwrite: it is for s3://BUCKET/KEY; a file is replaced without it")
	}
	if c.Resume {
		if err := c.checkResume(); err != nil {
			return err
		}
	}
	if c.format() == "parquet" && c.zipped() {
		return fmt.Errorf("-o %s: a parquet file is compressed in itself; leave .gz out", c.Output)
	}
	return nil
}

// checkResume refuses what cannot go on where it was.
func (c *exportCmd) checkResume() error {
	switch {
	case c.Output == "":
		return errors.New("--resume: it takes a file, with -o")
	case strings.HasPrefix(c.Output, s3Scheme):
		return fmt.Errorf("--resume and -o %s: an object cannot be written on; export to a file and copy it", c.Output)
	case c.Live:
		return errors.New("--resume and --live: what is not merged yet may be another thing by then")
	case c.format() == "parquet":
		return errors.New("--resume and --format parquet: only the last row tells the columns; write ndjson, or leave --resume out")
	case c.format() == "csv" && !c.namesAll():
		return errors.New("--resume and --format csv: only the last row tells the header; name all columns with --columns, those of annotators too, or write ndjson")
	}
	return nil
}

// namesAll reports whether the columns of a row are known before there is one.
func (c *exportCmd) namesAll() bool {
	for _, a := range c.Annotators {
		if !slices.ContainsFunc(c.Columns, func(col string) bool { return strings.HasPrefix(col, a+".") }) {
			return false
		}
	}
	return c.Columns != nil
}

// suffix is that of the output, without one of compression.
func (c *exportCmd) suffix() string {
	return strings.ToLower(filepath.Ext(strings.TrimSuffix(strings.ToLower(c.Output), ".gz")))
}

func (c *exportCmd) format() string {
	switch {
	case c.Format != "":
		return c.Format
	case c.suffix() == ".csv":
		return "csv"
	case c.suffix() == ".parquet":
		return "parquet"
	}
	return "ndjson"
}

// zipped reports that the output is compressed.
func (c *exportCmd) zipped() bool { return strings.HasSuffix(strings.ToLower(c.Output), ".gz") }
