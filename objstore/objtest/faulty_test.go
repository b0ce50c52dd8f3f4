package objtest_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	"github.com/siltstone-data/siltstone/objstore/objtest"
)

func TestAStoreWithoutPlannedFaultsConforms(t *testing.T) {
	objtest.Conform(t, func(t *testing.T) objstore.Store {
		return objtest.NewFaulty(t, mem.New())
	}, objtest.Options{AnyKeys: true, Large: 1 << 20})
}

var errDisk = errors.New("disk is full")

func body(t *testing.T, s objstore.Store, key string) string {
	t.Helper()
	b, _, err := objstore.ReadAll(t.Context(), s, key)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestAFaultBefallsTheCallItWasPlannedFor(t *testing.T) {
	inner := mem.New()
	f := objtest.NewFaulty(t, inner,
		objtest.On(objtest.Put).Key("a/*/x").Nth(2).Fail(errDisk),
		objtest.On(objtest.Put).Key("b").Times(2).LoseAnswer(),
	)
	write := func(key string) error {
		_, err := f.Put(t.Context(), key, []byte(key), objstore.Condition{})
		return err
	}
	if err := errors.Join(write("a/1/x"), write("a/1/y"), write("c")); err != nil {
		t.Fatal(err)
	}
	if err := write("a/b/c/x"); !errors.Is(err, errDisk) {
		t.Fatalf("second call: %v", err)
	}
	if err := write("a/3/x"); err != nil {
		t.Fatalf("third call: %v", err)
	}
	if _, _, err := objstore.ReadAll(t.Context(), inner, "a/b/c/x"); !errors.Is(err, objstore.ErrNotFound) {
		t.Fatalf("the failed put had an effect: %v", err)
	}
	for range 2 {
		if err := write("b"); !errors.Is(err, objstore.ErrUnknown) {
			t.Fatalf("lost answer: %v", err)
		}
	}
	if got := body(t, inner, "b"); got != "b" {
		t.Fatalf("the put whose answer was lost left %q", got)
	}
	if err := write("b"); err != nil {
		t.Fatal(err)
	}
}

func TestABodyAndAListAreCut(t *testing.T) {
	f := objtest.NewFaulty(t, mem.New(),
		objtest.On(objtest.Get).Cut(3),
		objtest.On(objtest.List).Nth(1).Cut(1),
	)
	for _, k := range []string{"k", "l", "m"} {
		if _, err := f.Put(t.Context(), k, []byte("0123456789"), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	b, _, err := objstore.ReadAll(t.Context(), f, "k")
	if string(b) != "012" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("%q, %v", b, err)
	}
	count := func() (n int, last error) {
		for _, err := range f.List(t.Context(), "", "") {
			if last = err; err == nil {
				n++
			}
		}
		return n, last
	}
	if n, err := count(); n != 1 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("cut list: %d names, %v", n, err)
	}
	if n, err := count(); n != 3 || err != nil {
		t.Fatalf("whole list: %d names, %v", n, err)
	}
}

func TestALateWriteTakesEffectAfterItsCalls(t *testing.T) {
	f := objtest.NewFaulty(t, mem.New(), objtest.On(objtest.Put, objtest.Upload).Times(2).Late(2))
	given := []byte("late")
	if _, err := f.Put(t.Context(), "k", given, objstore.IfAbsent()); !errors.Is(err, objstore.ErrUnknown) {
		t.Fatal(err)
	}
	copy(given, "XXXX")
	if got := body(t, f, "k"); got == "late" {
		t.Fatal("it took effect at once")
	}
	if got := body(t, f, "k"); got != "late" {
		t.Fatalf("after two calls: %q", got)
	}
	if _, err := f.Put(t.Context(), "k", nil, objstore.IfAbsent()); !errors.Is(err, objstore.ErrUnknown) {
		t.Fatal(err)
	}
	if errs := f.Flush(); len(errs) != 1 || !errors.Is(errs[0], objstore.ErrLost) {
		t.Fatalf("flush: %v", errs)
	}
}

func TestSomethingElseHappensAroundACall(t *testing.T) {
	inner := mem.New()
	other := func() { _, _ = inner.Put(t.Context(), "k", []byte("other"), objstore.Condition{}) }
	f := objtest.NewFaulty(t, inner, objtest.On(objtest.Put).Nth(1).Before(other), objtest.On(objtest.Delete).After(other))
	if _, err := f.Put(t.Context(), "k", []byte("own"), objstore.IfAbsent()); !errors.Is(err, objstore.ErrLost) {
		t.Fatalf("put: %v", err)
	}
	if err := f.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if got := body(t, f, "k"); got != "other" {
		t.Fatal(got)
	}
}

func TestRulesPrintThemselves(t *testing.T) {
	for want, r := range map[string]*objtest.Rule{
		`put a/*, call 2, fails with "disk is full"`:  objtest.On(objtest.Put).Key("a/*").Nth(2).Fail(errDisk),
		`get|list *, calls 1 to 3, is cut after 10`:   objtest.On(objtest.Get, objtest.List).Times(3).Cut(10),
		`any call k takes effect, the answer is lost`: objtest.On().Key("k").LoseAnswer(),
	} {
		if got := fmt.Sprint(r); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// recorder takes the place of a test that is expected to fail.
type recorder struct {
	testing.TB
	cleanup []func()
	errors  []string
}

func (r *recorder) Cleanup(fn func()) { r.cleanup = append(r.cleanup, fn) }
func (r *recorder) Errorf(format string, a ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, a...))
}

func TestAFaultThatNeverHappenedFailsTheTest(t *testing.T) {
	r := &recorder{TB: t}
	f := objtest.NewFaulty(r, mem.New(), objtest.On(objtest.Delete).Fail(errDisk))
	f.Add(objtest.On(objtest.Get).Nth(2).Fail(errDisk))
	body(t, f, "k")
	body(t, f, "k")
	for _, fn := range r.cleanup {
		fn()
	}
	if len(r.errors) != 1 || r.errors[0] != `planned fault never happened: delete * fails with "disk is full"` {
		t.Fatalf("%q", r.errors)
	}
}
