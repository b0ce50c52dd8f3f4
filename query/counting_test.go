package query_test

import (
	"context"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/siltstone-data/siltstone/objstore"
)

// counting counts what is asked of a store, and looks at keys before.
type counting struct {
	objstore.Store
	blocks, gets atomic.Int64
	open         atomic.Int64 // bodies not closed yet
	get          func(key string)
}

func (c *counting) Get(ctx context.Context, key string, s objstore.Span) (io.ReadCloser, objstore.Info, error) {
	if c.get != nil {
		c.get(key)
	}
	c.gets.Add(1)
	if strings.HasSuffix(key, ".jsonl.gz") {
		c.blocks.Add(1)
	}
	r, info, err := c.Store.Get(ctx, key, s)
	if err != nil {
		return nil, info, err
	}
	c.open.Add(1)
	return &body{r, c}, info, nil
}

type body struct {
	io.ReadCloser
	c *counting
}

func (b *body) Close() error {
	b.c.open.Add(-1)
	return b.ReadCloser.Close()
}

// entries lists what lies in a folder.
func entries(t *testing.T, dir string) []string {
	t.Helper()
	es, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range es {
		names = append(names, e.Name())
	}
	return names
}
