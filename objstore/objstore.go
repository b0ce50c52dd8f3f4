// Package objstore gets, conditionally puts, lists and deletes objects: bytes,
// not meanings.
//
// An object is a key (relative to the store's prefix), bytes and an ETag. An
// ETag is an opaque version token without quotes: two equal ETags of one key
// mean the same bytes, nothing else follows from it.
package objstore

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// The outcomes that callers tell apart. All are compared with errors.Is.
var (
	// ErrNotFound: no object has that key. A conditional put with IfMatch
	// reports it when the object is gone.
	ErrNotFound = errors.New("object not found")
	// ErrLost: the condition of a put did not hold; somebody else was first.
	ErrLost = errors.New("conditional write lost")
	// ErrChanged: the object is no longer the version that a read asked for.
	ErrChanged = errors.New("object changed")
	// ErrUnknown: a put was sent and no answer came; it may have been stored,
	// and may still be.
	ErrUnknown = errors.New("write outcome unknown")
)

// Info describes an object.
type Info struct {
	Key      string
	Size     int64 // bytes
	ETag     string
	Modified time.Time // by the store's clock
	// Date is the store's clock at the moment of this answer, to the second or
	// finer: what "now" means to all who share the store, whatever their own
	// clocks say. Zero where the answer does not say: in a list, and with stores
	// that send no such thing.
	Date time.Time
}

// Condition guards a put. The zero value puts unconditionally.
type Condition struct {
	ifMatch  string
	ifAbsent bool
}

// IfAbsent lets a put succeed only where no object has the key.
func IfAbsent() Condition { return Condition{ifAbsent: true} }

// IfMatch lets a put succeed only over the version with this ETag. No version
// has the empty one: such a put never succeeds, rather than always.
func IfMatch(etag string) Condition {
	if etag == "" {
		etag = "none"
	}
	return Condition{ifMatch: etag}
}

// Absent reports whether the condition asks for a free key.
func (c Condition) Absent() bool { return c.ifAbsent }

// Match is the ETag the condition asks for, or "".
func (c Condition) Match() string { return c.ifMatch }

// Span selects what a Get reads. One that starts past the last byte is an error;
// one that reaches past it stops there.
type Span struct {
	Offset int64  // first byte
	Length int64  // bytes; 0 means to the end
	ETag   string // if set, only this version: any other gives ErrChanged
}

// Store is a bucket or a part of one. All methods may be called at once from
// many goroutines. Keys are used as they are: no method cleans a path.
type Store interface {
	// Get opens an object. The reader resumes by itself when its connection is
	// cut, pinned to the version it started with (ErrChanged if that is gone),
	// and gives io.ErrUnexpectedEOF rather than a short body. Info.Size is the
	// size of the whole object. The caller closes the reader.
	Get(ctx context.Context, key string, s Span) (io.ReadCloser, Info, error)

	// Put stores body under key. With a condition the outcome is nil, ErrLost,
	// ErrNotFound (IfMatch on a missing object) or ErrUnknown. An own write
	// whose first answer was lost is recognised by reading it back and counts
	// as stored. The body is not retained.
	Put(ctx context.Context, key string, body []byte, c Condition) (Info, error)

	// Upload stores what r holds, in parts when it is large, with the outcomes
	// of Put. Nothing is visible under key before all of it is stored. size is
	// the number of bytes that r will give; any other number is an error.
	Upload(ctx context.Context, key string, r io.ReadSeeker, size int64, c Condition) (Info, error)

	// List gives the objects whose keys start with prefix and come after the
	// key `after`, in byte order, page by page; it never ends early without an
	// error.
	List(ctx context.Context, prefix, after string) iter.Seq2[Info, error]

	// Dirs gives the distinct next path elements below prefix, which ends in a
	// slash or is empty, that hold further keys: "a/" for "a/b". Byte order.
	Dirs(ctx context.Context, prefix string) iter.Seq2[string, error]

	// Delete removes an object. A missing one is no error.
	Delete(ctx context.Context, key string) error
}

// ReadAll gets a whole object.
func ReadAll(ctx context.Context, s Store, key string) ([]byte, Info, error) {
	r, info, err := s.Get(ctx, key, Span{})
	if err != nil {
		return nil, Info{}, err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return b, info, err
}
