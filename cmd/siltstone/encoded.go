package main

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"hash"
)

// encoded is what an export writes to an output: compressed or not, counted and
// summed up. Compressed it is one gzip member for each stretch between two cuts,
// so that what was written up to a cut stands for itself.
type encoded struct {
	out   output
	zip   *gzip.Writer // nil: not compressed
	raw   int64        // bytes before compression
	bytes int64        // bytes of the output
	sum   hash.Hash    // of the output
	fresh bool         // nothing was written since
	mute  bool         // what is written is there already
}

func newEncoded(out output, compress bool) *encoded {
	e := &encoded{out: out, sum: sha256.New(), fresh: true}
	if compress {
		e.zip = gzip.NewWriter(encodedTail{e})
	}
	return e
}

// resume goes on after what an earlier process has written.
func (e *encoded) resume(p *partial) {
	e.raw, e.bytes, e.sum = p.state.Raw, p.state.Bytes, p.sum
}

func (e *encoded) Write(p []byte) (int, error) {
	if e.mute {
		return len(p), nil
	}
	e.raw += int64(len(p))
	e.fresh = e.fresh && len(p) == 0
	if e.zip != nil {
		return e.zip.Write(p)
	}
	return encodedTail{e}.Write(p)
}

// cut ends a stretch. No reader sees it.
func (e *encoded) cut() error {
	if e.zip == nil || e.fresh && e.bytes > 0 {
		return nil
	}
	if err := e.zip.Close(); err != nil {
		return err
	}
	e.zip.Reset(encodedTail{e})
	e.fresh = true
	return nil
}

func (e *encoded) sha256() string { return hex.EncodeToString(e.sum.Sum(nil)) }

// encodedTail is the last part of the way.
type encodedTail struct{ *encoded }

func (t encodedTail) Write(p []byte) (int, error) {
	n, err := t.out.Write(p)
	t.bytes += int64(n)
	t.sum.Write(p[:n])
	return n, err
}
