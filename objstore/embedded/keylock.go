package embedded

import "sync"

// keyLock is a read-write lock for each name. It holds memory only for names
// that are locked.
type keyLock struct {
	mu    sync.Mutex
	locks map[string]*countedLock
}

type countedLock struct {
	sync.RWMutex
	users int
}

func (k *keyLock) take(name string) *countedLock {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.locks == nil {
		k.locks = map[string]*countedLock{}
	}
	l, ok := k.locks[name]
	if !ok {
		l = &countedLock{}
		k.locks[name] = l
	}
	l.users++
	return l
}

func (k *keyLock) give(name string, l *countedLock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(k.locks, name)
	}
}

// lock excludes everybody else from name until the function it gives is called.
func (k *keyLock) lock(name string) (unlock func()) {
	l := k.take(name)
	l.Lock()
	return func() {
		l.Unlock()
		k.give(name, l)
	}
}

// rlock excludes writers.
func (k *keyLock) rlock(name string) (unlock func()) {
	l := k.take(name)
	l.RLock()
	return func() {
		l.RUnlock()
		k.give(name, l)
	}
}
