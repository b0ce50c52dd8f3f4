package embedded

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// What this keeps in memory cannot be seen from outside: it shows in a power cut.

func TestAFolderIsKnownUntilSomethingBelowItIsRemoved(t *testing.T) {
	root := t.TempDir()
	d := newDurable(root)
	file := filepath.Join(root, "bucket", "a", "b", "k")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := d.name(file); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"bucket", "bucket/a", "bucket/a/b"} {
		if !d.knows(filepath.Join(root, dir)) {
			t.Errorf("%s is not known", dir)
		}
	}
	d.removing(file)
	for _, dir := range []string{"bucket", "bucket/a", "bucket/a/b"} {
		if d.knows(filepath.Join(root, dir)) {
			t.Errorf("%s is still known", dir)
		}
	}
	if err := d.name(filepath.Join(root, "bucket", "gone", "k")); err == nil || d.knows(filepath.Join(root, "bucket", "gone")) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func TestRemovalsAreSyncedWhereTheFolderIsGoneToo(t *testing.T) {
	root := t.TempDir()
	d := newDurable(root)
	d.gone(filepath.Join(root, "bucket", "a", "b", "k"))
	if err := d.removals(); err != nil {
		t.Fatal(err)
	}
	if len(d.removed) != 0 {
		t.Errorf("%v are left", d.removed)
	}
}

func TestAKeyLockIsForgottenWhenNobodyHoldsIt(t *testing.T) {
	var k keyLock
	var wg sync.WaitGroup
	n := 0
	for range 50 {
		wg.Go(func() {
			defer k.lock("a")()
			n++
		})
		wg.Go(func() {
			defer k.rlock("a")()
			_ = n
		})
		wg.Go(func() { defer k.lock("b")() })
	}
	wg.Wait()
	if n != 50 || len(k.locks) != 0 {
		t.Errorf("%d turns, %d locks left", n, len(k.locks))
	}
}
