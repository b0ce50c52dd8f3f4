package producers

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/siltstone-data/siltstone/dataset"
)

// The defaults of a writer.
const (
	DefaultChunkRows  = 100
	DefaultChunkAge   = 2 * time.Second
	DefaultChunkBytes = 8 << 20
	DefaultRetryFor   = time.Minute
)

// InFlight is how many chunks of one writer are being stored at a time. With
// the one that fills, it bounds the memory of a writer: InFlight+1 chunks.
const InFlight = 4

// Option changes how a Writer works.
type Option func(*options)

type options struct {
	deduplicateOn []string
	chunkRows     int
	chunkBytes    int
	chunkAge      time.Duration
	retryFor      time.Duration
	name          string
	now           func() time.Time
	random        io.Reader
	onStored      func(ids []string)

	// Of a run that is written under a lease.
	token    int64
	onSealed func(rows int64) // told when rows leave the buffer on their way to the store
}

// DeduplicateOn says on which columns the rows of the batch are duplicates of
// each other. A writer without this option has no opinion on it; one that names
// no column ends deduplication for the batch.
func DeduplicateOn(columns ...string) Option {
	return func(o *options) { o.deduplicateOn = append([]string{}, columns...) }
}

// ChunkRows sets how many rows fill a chunk.
func ChunkRows(n int) Option { return func(o *options) { o.chunkRows = n } }

// ChunkBytes sets how many bytes of rows fill a chunk. A larger row is a chunk
// alone.
func ChunkBytes(n int) Option { return func(o *options) { o.chunkBytes = n } }

// ChunkAge sets how long a row waits for others to fill its chunk; 0 is for
// ever.
func ChunkAge(d time.Duration) Option { return func(o *options) { o.chunkAge = d } }

// RetryFor sets how long the put of a chunk is tried again before the writer
// gives up.
func RetryFor(d time.Duration) Option { return func(o *options) { o.retryFor = d } }

// Name sets what the run manifest calls the writer; the default is host/pid.
func Name(s string) Option { return func(o *options) { o.name = s } }

// Clock sets where the writer takes the time from.
func Clock(now func() time.Time) Option { return func(o *options) { o.now = now } }

// Random sets where run ids and the random bits of row ids come from, for runs
// that must repeat. It is read from one goroutine at a time.
func Random(r io.Reader) Option { return func(o *options) { o.random = r } }

// OnStored sets a function that is told the ids of the rows of each chunk once
// it is stored, one call at a time, not always in the order of the chunks. It
// must not call the writer.
func OnStored(fn func(ids []string)) Option { return func(o *options) { o.onStored = fn } }

// underLease marks the run as one that whoever has the lease next may end, and
// that therefore ends with compare-and-swap, and only once nothing of it can
// come late.
func underLease(token int64, onSealed func(rows int64)) Option {
	return func(o *options) { o.token, o.onSealed = token, onSealed }
}

func newOptions(opts []Option) (options, error) {
	o := options{
		chunkRows: DefaultChunkRows, chunkBytes: DefaultChunkBytes, chunkAge: DefaultChunkAge,
		retryFor: DefaultRetryFor, now: time.Now, random: rand.Reader,
	}
	for _, opt := range opts {
		opt(&o)
	}
	if o.name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		o.name = host + "/" + strconv.Itoa(os.Getpid())
	}
	if err := o.check(); err != nil {
		return o, fmt.Errorf("%w: %w", ErrOption, err)
	}
	return o, nil
}

func (o *options) check() error {
	switch {
	case o.chunkRows < 1:
		return fmt.Errorf("%d rows per chunk: at least 1 is needed", o.chunkRows)
	case o.chunkBytes < 1:
		return fmt.Errorf("%d bytes per chunk: at least 1 is needed", o.chunkBytes)
	case o.chunkAge < 0:
		return fmt.Errorf("chunk age %s: it cannot be negative (0 turns it off)", o.chunkAge)
	case o.now == nil || o.random == nil:
		return errors.New("a writer needs a clock and a source of randomness")
	}
	for i, c := range o.deduplicateOn {
		switch {
		case !utf8.ValidString(c):
			return fmt.Errorf("deduplicate on %q: no row has that column, the name is not valid UTF-8", c)
		case c == dataset.BatchColumn || strings.HasPrefix(c, dataset.ReservedPrefix):
			return fmt.Errorf("deduplicate on %q: no row has that column, the name is reserved", c)
		case slices.Contains(o.deduplicateOn[:i], c):
			return fmt.Errorf("deduplicate on %q: the column is named twice", c)
		}
	}
	return nil
}
