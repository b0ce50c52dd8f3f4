package catalog_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore/mem"
)

func TestTheStateOfAConversionFollowsFromItsBatches(t *testing.T) {
	var c catalog.Conversion
	check := func(state string, done, total int, bytes int64) {
		t.Helper()
		if c.State != state || c.BatchesDone != done || c.BatchesTotal != total || c.BytesDone != bytes {
			t.Fatalf("%+v", c)
		}
	}
	c.Plan(map[string]int64{"a": 10, "b": 20, "b/lang": 5}, noon)
	check(catalog.ConversionRunning, 0, 3, 0)
	c.Begin("a", catalog.AtWork{By: "one", At: noon})
	c.Done("a", noon)
	check(catalog.ConversionRunning, 1, 3, 10)
	c.Done("a", noon) // told twice
	check(catalog.ConversionRunning, 1, 3, 10)
	c.Fail("b", "cut", noon)
	check(catalog.ConversionRunning, 1, 3, 10)
	c.Fail("b/lang", "cut too", noon)
	check(catalog.ConversionFailed, 1, 3, 10)
	c.Begin("b", catalog.AtWork{By: "two", At: noon})
	check(catalog.ConversionRunning, 1, 3, 10)
	if _, still := c.Errors["b"]; still {
		t.Error("it is tried again, and has failed")
	}
	c.Done("b", noon)
	c.Add("c", 100, noon)
	check(catalog.ConversionRunning, 2, 4, 30)
	c.Plan(map[string]int64{"c": 100}, noon) // a merge has adopted the layer's
	check(catalog.ConversionRunning, 3, 4, 35)
	c.Done("c", noon)
	check(catalog.ConversionDone, 4, 4, 135)
	c.Plan(map[string]int64{"d": 1}, noon.Add(time.Hour)) // another conversion
	check(catalog.ConversionRunning, 0, 1, 0)
	c.Begin("d", catalog.AtWork{By: "dead", At: noon.Add(time.Hour)})
	c.Add("e", 1, noon.Add(2*time.Hour))
	if len(c.Running) > 0 {
		t.Error("nobody has heard of it for an hour, and it is at work")
	}
}

func TestMergersThatShareAConversionDoNotLoseEachOthersProgress(t *testing.T) {
	s := mem.New()
	const n = 40
	all := map[string]int64{}
	for i := range n {
		all[fmt.Sprint(i)] = 1
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			name := fmt.Sprint(i)
			for _, change := range []func(*catalog.Conversion) bool{
				func(c *catalog.Conversion) bool {
					if c.State != catalog.ConversionRunning {
						c.Plan(all, noon)
					}
					c.Begin(name, catalog.AtWork{By: name, At: noon})
					return true
				},
				func(c *catalog.Conversion) bool { c.Done(name, noon); return true },
			} {
				if _, err := catalog.UpdateConversion(context.Background(), s, "d", change); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	c, err := catalog.ReadConversion(t.Context(), s, "d")
	if err != nil || c.State != catalog.ConversionDone || c.BatchesDone != n || c.BatchesTotal != n || c.Seq < 2*n {
		t.Fatalf("%+v %v", c, err)
	}
}

func TestAStatusThatNobodyCanReadIsMadeAnew(t *testing.T) {
	for _, text := range []string{"", "{", `{"status":"converting","done":3}`, `[]`} {
		s := mem.New()
		put(t, s, dataset.ConversionKey("d"), text)
		c, err := catalog.ReadConversion(t.Context(), s, "d")
		if err != nil || c.State != catalog.ConversionIdle {
			t.Errorf("%q: %+v %v", text, c, err)
		}
		c, err = catalog.UpdateConversion(t.Context(), s, "d", func(c *catalog.Conversion) bool {
			c.Plan(map[string]int64{"b": 1}, noon)
			return true
		})
		if err != nil || c.BatchesTotal != 1 {
			t.Errorf("%q: %+v %v", text, c, err)
		}
	}
}
