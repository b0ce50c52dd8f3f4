package bus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Follow gives fn the keys that match filter as they are, calls synced, and
// then gives fn every change, until ctx ends (nil) or fn returns an error (that
// error). synced is called exactly once and may be nil. fn is called by one
// goroutine.
//
// It survives reconnects and server restarts. When the bucket was made anew, or
// too much time has passed for changes to be told one by one, fn gets all keys
// again and, for those that it knows and that are gone, an Entry with Deleted
// and revision 0: so fn never has to think about it, but must not expect
// revisions to grow. Only the last change of a key is certain to come: between
// two calls it may have changed many times. Follow remembers the keys it gave.
func (k *KV) Follow(ctx context.Context, filter string, fn func(Entry) error, synced func()) error {
	s := &snapshot{live: map[string]bool{}, fn: fn, synced: synced}
	f := k.follower(filter)
	f.looked = func(info *jetstream.StreamInfo) error {
		if s.stale(info, f.cursor) {
			if s.epoch != 0 {
				f.log.Info("reading the bucket anew", keySeq, f.cursor)
			}
			f.cursor = 0
			s.restart(info)
		}
		return nil
	}
	f.opened = func(_ *jetstream.StreamInfo, pending uint64) error {
		s.contact = time.Now()
		if pending == 0 {
			return s.complete()
		}
		return nil
	}
	f.each = func(m message) error {
		s.contact = time.Now()
		if err := s.add(k.entry(m)); err != nil {
			return err
		}
		if m.pending == 0 {
			return s.complete()
		}
		return nil
	}
	return k.err("follow", filter, f.run(ctx))
}

// snapshot is what a Follow knows of its keys.
type snapshot struct {
	epoch   int64           // creation of the stream that the keys are of
	contact time.Time       // when the server was last heard
	live    map[string]bool // keys given; the value tells whether the present snapshot has them
	done    bool
	fn      func(Entry) error
	synced  func()
}

// stale reports that changes since the cursor cannot be told one by one.
func (s *snapshot) stale(info *jetstream.StreamInfo, cursor uint64) bool {
	return s.epoch != info.Created.UnixNano() || // made anew
		info.State.LastSeq < cursor || // its end was lost
		info.State.Msgs == 0 && len(s.live) > 0 || // purged
		time.Since(s.contact) > markerLife/2 // marks of deleted keys may be gone
}

func (s *snapshot) restart(info *jetstream.StreamInfo) {
	s.epoch = info.Created.UnixNano()
	s.done = false
	for key := range s.live {
		s.live[key] = false
	}
}

func (s *snapshot) add(e Entry) error {
	if !e.Deleted {
		s.live[e.Key] = true
		return s.fn(e)
	}
	if _, known := s.live[e.Key]; !known {
		return nil
	}
	delete(s.live, e.Key)
	return s.fn(e)
}

// complete tells of the keys that the new snapshot does not have.
func (s *snapshot) complete() error {
	if s.done {
		return nil
	}
	s.done = true
	for key, seen := range s.live {
		if seen {
			continue
		}
		delete(s.live, key)
		if err := s.fn(Entry{Key: key, Deleted: true}); err != nil {
			return err
		}
	}
	if s.synced != nil {
		s.synced()
		s.synced = nil
	}
	return nil
}
