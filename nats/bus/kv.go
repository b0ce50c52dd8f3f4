package bus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// MaxKeyBytes bounds a key: the server drops a client for good whose
	// protocol line passes 4 KiB, and the line holds more than the key.
	MaxKeyBytes = 3072
	// MaxValueBytes bounds a value: the server's limit of a message, less some
	// room for headers.
	MaxValueBytes = 1<<20 - 512

	kvOp     = "KV-Operation"
	kvPurged = "PURGE"
)

var keyPattern = regexp.MustCompile(`^[-/_=A-Za-z0-9]+(\.[-/_=A-Za-z0-9]+)*$`)

// Entry is a key and its value at a revision. Revisions grow with every change
// of a bucket for as long as the bucket is not made anew.
type Entry struct {
	Key      string
	Value    []byte
	Revision uint64
	Deleted  bool // the key is gone: deleted, or its life ran out
	Created  time.Time
}

// KV is a bucket of small values. Keys are tokens of dataset.Token joined by
// dots.
type KV struct {
	b      *Bus
	bucket Bucket
	stream string
}

// KV is the bucket with that name; it does no I/O.
func (b *Bus) KV(bucket Bucket) *KV {
	return &KV{b: b, bucket: bucket, stream: b.names.bucketStream(bucket)}
}

func (k *KV) err(op, key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("bus: %s %s in bucket %s: %w", op, key, k.bucket, k.b.explain(k.stream, err))
}

func checkKey(key string) error {
	switch {
	case len(key) > MaxKeyBytes:
		return fmt.Errorf("key of %d bytes, %d are allowed", len(key), MaxKeyBytes)
	case !keyPattern.MatchString(key):
		return fmt.Errorf("key %q is not tokens joined by dots", key)
	}
	return nil
}

// Get reads a key: ErrNoKey where there is none. In a cluster it may be a
// moment old; what is written by the revision it gave is safe all the same.
func (k *KV) Get(ctx context.Context, key string) (Entry, error) {
	e, err := k.get(ctx, key)
	if err == nil && e.Deleted {
		err = ErrNoKey
	}
	if err != nil {
		return Entry{}, k.err("get", key, err)
	}
	return e, nil
}

// get gives the marker of a deleted key too.
func (k *KV) get(ctx context.Context, key string) (Entry, error) {
	if err := checkKey(key); err != nil {
		return Entry{}, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	s, err := k.b.stream(ctx, k.stream)
	if err != nil {
		return Entry{}, err
	}
	for start := time.Now(); ; {
		m, err := k.last(ctx, s, key)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			return Entry{}, ErrNoKey
		case err == nil:
			return Entry{Key: key, Value: m.Data, Revision: m.Sequence, Created: m.Time, Deleted: deletion(m.Header)}, nil
		case errors.Is(err, context.Canceled) && ctx.Err() == nil: // reconnected: a read may be repeated
		// Right after a restart nothing answers yet.
		case !noStream(err) || time.Since(start) > k.b.t.Publish || !pause(ctx, 50*time.Millisecond):
			return Entry{}, err
		}
	}
}

func (k *KV) last(ctx context.Context, s jetstream.Stream, key string) (*jetstream.RawStreamMsg, error) {
	if err := k.b.connected(ctx); err != nil {
		return nil, err
	}
	conn, cancel := k.b.connection(ctx)
	defer cancel()
	return s.GetLastMsgForSubject(conn, k.b.names.key(k.bucket, key))
}

// deletion reports whether a message of a bucket says that its key is gone:
// deleted by somebody, or by the server when its life ran out.
func deletion(h nats.Header) bool {
	op := h.Get(kvOp)
	return op == "DEL" || op == kvPurged || h.Get(jetstream.MarkerReasonHeader) != ""
}

// Create writes a key that must not exist: ErrExists.
func (k *KV) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	rev, err := k.create(ctx, key, value, 0)
	return rev, k.err("create", key, err)
}

func (k *KV) create(ctx context.Context, key string, value []byte, life time.Duration) (uint64, error) {
	var over uint64
	for n := 0; ; n++ {
		rev, err := k.write(ctx, key, value, &over, life)
		if !errors.Is(err, ErrRevision) {
			return rev, err
		}
		e, err := k.get(ctx, key)
		switch {
		case errors.Is(err, ErrNoKey): // its marker has just gone
			over = 0
		case err != nil:
			return 0, err
		case !e.Deleted:
			return 0, ErrExists
		default:
			over = e.Revision
		}
		if n > 3 {
			return 0, ErrExists // others create and delete it all the time
		}
	}
}

// Update writes a key that must still be at the revision: ErrRevision.
func (k *KV) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	rev, err := k.write(ctx, key, value, &revision, 0)
	return rev, k.err("update", key, err)
}

// Put writes a key whatever it holds.
func (k *KV) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	rev, err := k.write(ctx, key, value, nil, 0)
	return rev, k.err("put", key, err)
}

// PutFor is Put for a value that vanishes by itself after life, which is at
// least a second. Any later write without a life keeps the key for ever.
func (k *KV) PutFor(ctx context.Context, key string, value []byte, life time.Duration) (uint64, error) {
	rev, err := k.write(ctx, key, value, nil, max(life, time.Second))
	return rev, k.err("put", key, err)
}

// Delete removes a key that is at the revision (ErrRevision), or at any when it
// is 0. Deleting what does not exist is no error.
func (k *KV) Delete(ctx context.Context, key string, revision uint64) error {
	if err := checkKey(key); err != nil {
		return k.err("delete", key, err)
	}
	m := nats.NewMsg(k.b.names.key(k.bucket, key))
	m.Header.Set(kvOp, kvPurged)
	opts := []jetstream.PublishOpt{jetstream.WithMsgTTL(markerLife)}
	if revision != 0 {
		opts = append(opts, jetstream.WithExpectLastSequencePerSubject(revision))
	}
	_, err := k.send(ctx, m, opts)
	return k.err("delete", key, err)
}

// write sends a value; over is the revision that it must replace, if not nil,
// with 0 for none.
func (k *KV) write(ctx context.Context, key string, value []byte, over *uint64, life time.Duration) (uint64, error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	if len(value) > MaxValueBytes {
		return 0, fmt.Errorf("value of %d bytes, %d are allowed", len(value), MaxValueBytes)
	}
	m := nats.NewMsg(k.b.names.key(k.bucket, key))
	m.Data = value
	var opts []jetstream.PublishOpt
	if over != nil {
		opts = append(opts, jetstream.WithExpectLastSequencePerSubject(*over))
	}
	if life > 0 {
		opts = append(opts, jetstream.WithMsgTTL(life))
	}
	return k.send(ctx, m, opts)
}

// send does not repeat a write whose answer was lost: it may have been stored,
// and a repeated compare-and-swap would then report a stranger's write.
func (k *KV) send(ctx context.Context, m *nats.Msg, opts []jetstream.PublishOpt) (uint64, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	for start := time.Now(); ; {
		if err := k.b.connected(ctx); err != nil {
			return 0, err
		}
		conn, cancel := k.b.connection(ctx)
		ack, err := k.b.js.PublishMsg(conn, m, opts...)
		cancel()
		switch {
		case err == nil:
			return ack.Sequence, nil
		case errors.Is(err, context.Canceled) && ctx.Err() == nil:
			return 0, errors.New("the answer was lost with the connection: it may have been written")
		case wrongSequence(err):
			return 0, ErrRevision
		// Nobody was there to store it: safe to repeat.
		case !noStream(err) || time.Since(start) > k.b.t.Publish || !pause(ctx, 50*time.Millisecond):
			if noStream(err) {
				err = errors.Join(fmt.Errorf("nothing answers for it, `siltstone topology` creates it: %w", ErrTopology), err)
			}
			return 0, err
		}
	}
}

// List gives the keys that match filter ("chunk.D.B.>", or ">" for all) and
// their values as they are now, deleted ones left out, in the order of their
// last change. It holds a few entries at a time. A key that changes meanwhile
// may come twice, the later revision last.
func (k *KV) List(ctx context.Context, filter string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		f := k.follower(filter)
		f.each = func(m message) error {
			e := k.entry(m)
			if !e.Deleted && !yield(e, nil) || m.pending == 0 {
				return errStop
			}
			return nil
		}
		var epoch time.Time
		f.looked = func(info *jetstream.StreamInfo) error {
			if !epoch.IsZero() && !epoch.Equal(info.Created) || info.State.LastSeq < f.cursor {
				return errors.New("the bucket was made anew meanwhile")
			}
			epoch = info.Created
			return nil
		}
		f.opened = func(_ *jetstream.StreamInfo, pending uint64) error {
			if pending == 0 {
				return errStop
			}
			return nil
		}
		err := f.run(ctx)
		if err == nil {
			err = ctx.Err() // cut short
		}
		if err != nil && !errors.Is(err, errStop) {
			yield(Entry{}, k.err("list", filter, err))
		}
	}
}

func (k *KV) entry(m message) Entry {
	_, key, _ := strings.Cut(m.subject, k.b.names.key(k.bucket, ""))
	e := Entry{Key: key, Revision: m.seq, Created: m.at, Deleted: deletion(m.header)}
	if !e.Deleted {
		e.Value = m.data
	}
	return e
}

func (k *KV) follower(filter string) *follower {
	return &follower{b: k.b, stream: k.stream, filter: []string{k.b.names.key(k.bucket, filter)},
		policy: jetstream.DeliverLastPerSubjectPolicy, log: k.b.log.With(keyBucket, string(k.bucket))}
}
