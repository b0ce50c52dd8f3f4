package mem_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/objstore/objtest"
)

func TestConforms(t *testing.T) {
	objtest.Conform(t, func(*testing.T) objstore.Store { return mem.New() }, objtest.Options{AnyKeys: true, Large: 1 << 20})
}

func TestConformsWithTinyPages(t *testing.T) {
	objtest.Conform(t, func(*testing.T) objstore.Store { return mem.New(mem.Config{Page: 2}) }, objtest.Options{AnyKeys: true, Large: 1 << 20})
}

func TestConformsBelowAPrefix(t *testing.T) {
	objtest.Conform(t, func(t *testing.T) objstore.Store {
		s := mem.New()
		for _, k := range []string{"p", "p/", "p/q", "p/q0", "p0", "o/x"} { // neighbours that must not show
			if _, err := s.Put(t.Context(), k, nil, objstore.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
		return objstore.WithPrefix(objstore.WithPrefix(s, "p"), "q/")
	}, objtest.Options{AnyKeys: true, Large: 1 << 20})
}

func TestConformsWhenCounted(t *testing.T) {
	objtest.Conform(t, func(*testing.T) objstore.Store {
		return objstore.Counted(mem.New(), objstore.NewMetrics(nil))
	}, objtest.Options{AnyKeys: true, Large: 1 << 20})
}

func TestModifiedIsReadFromTheClockThatWasGiven(t *testing.T) {
	at := time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC)
	s := mem.New(mem.Config{Now: func() time.Time { return at }})
	info, err := s.Put(t.Context(), "k", nil, objstore.Condition{})
	if err != nil || !info.Modified.Equal(at) {
		t.Fatalf("%+v, %v", info, err)
	}
	at = at.Add(time.Hour) // Modified stays, Date goes on
	_, got, err := objstore.ReadAll(t.Context(), s, "k")
	if err != nil || !got.Modified.Equal(info.Modified) || !got.Date.Equal(at) {
		t.Fatalf("%+v, %v", got, err)
	}
	at = info.Modified
	for listed, err := range s.List(t.Context(), "", "") {
		if err != nil || !listed.Modified.Equal(at) {
			t.Fatalf("%+v, %v", listed, err)
		}
	}
}

func TestAnEmptyKeyIsRefused(t *testing.T) {
	if _, err := mem.New().Put(t.Context(), "", nil, objstore.Condition{}); err == nil {
		t.Fatal("no error")
	}
}

func TestRequestsAreCountedByVerb(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := objstore.Counted(mem.New(), objstore.NewMetrics(reg))
	_ = objstore.Counted(mem.New(), objstore.NewMetrics(reg)) // a second store on one registry shares the counters
	if _, err := s.Put(t.Context(), "k", nil, objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for range s.List(t.Context(), "", "") {
		}
	}
	for range s.Dirs(t.Context(), "") {
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if !strings.HasSuffix(f.GetName(), "store_requests_total") {
			continue
		}
		for _, m := range f.GetMetric() {
			got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
	}
	if got[objstore.VerbList] != 4 || got[objstore.VerbPut] != 1 || got[objstore.VerbGet] != 0 || len(got) != 6 {
		t.Fatalf("%v", got)
	}
}
