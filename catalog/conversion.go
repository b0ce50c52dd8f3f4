package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// The states of a conversion.
const (
	ConversionIdle    = "idle"    // none was ever begun, or its status is gone
	ConversionRunning = "running" // some batches are not converted yet
	ConversionDone    = "done"
	ConversionFailed  = "failed" // what is left has failed
)

// Conversion is the progress of bringing a dataset's parquet files of older tools
// into blocks of JSON lines. It is derived: what is converted already is what the
// commit records say, and a status that is lost is made again from them.
type Conversion struct {
	Version int    `json:"version"`
	Dataset string `json:"dataset"`
	State   string `json:"state"`
	Seq     int64  `json:"seq"` // more with each write

	BatchesDone  int   `json:"batches_done"`
	BatchesTotal int   `json:"batches_total"`
	BytesDone    int64 `json:"bytes_done"` // of the files that were converted
	BytesTotal   int64 `json:"bytes_total"`

	// By batch: B, or B/A for a layer's part of it.
	Pending map[string]int64  `json:"pending"` // bytes of those not converted yet
	Running map[string]AtWork `json:"running"`
	Errors  map[string]string `json:"errors"`

	StartedAt time.Time `json:"started_at,omitzero"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
}

// AtWork says how far the batch is that somebody converts.
type AtWork struct {
	By    string    `json:"by"`
	Phase string    `json:"phase,omitempty"`
	Done  int64     `json:"done"` // rows of the phase
	Total int64     `json:"total"`
	At    time.Time `json:"at"`
}

// atWorkFor is how long a batch counts as being converted after the last sign of
// it: whoever did may have died.
const atWorkFor = 2 * time.Minute

// ConversionName is how a batch is called in a Conversion.
func ConversionName(b dataset.BatchID) string {
	return strings.TrimPrefix(b.String(), b.Dataset+"/")
}

// ReadConversion reads the status of a dataset's conversion; one that is not
// there, or that nobody can read, is idle.
func ReadConversion(ctx context.Context, s objstore.Store, d string) (Conversion, error) {
	c, _, err := readConversion(ctx, s, d)
	return c, err
}

func readConversion(ctx context.Context, s objstore.Store, d string) (c Conversion, etag string, err error) {
	key := dataset.ConversionKey(d)
	raw, info, err := objstore.ReadAll(ctx, s, key)
	if err != nil && !errors.Is(err, objstore.ErrNotFound) {
		return Conversion{}, "", fmt.Errorf("read %s: %w", key, err)
	}
	if err != nil || json.Unmarshal(raw, &c) != nil || c.Version != conversionVersion {
		// An older tool's, or damaged: what it told is found out again.
		c = Conversion{Version: conversionVersion, Dataset: d, State: ConversionIdle}
	}
	return c, info.ETag, nil
}

const conversionVersion = 1

// UpdateConversion changes the status by compare-and-swap, so that mergers that
// share the work do not lose each other's progress. change may be called several
// times; false from it means that there is nothing to write.
func UpdateConversion(ctx context.Context, s objstore.Store, d string, change func(*Conversion) bool) (Conversion, error) {
	key := dataset.ConversionKey(d)
	var err error
	for range conversionTries {
		var c Conversion
		var etag string
		if c, etag, err = readConversion(ctx, s, d); err != nil {
			return Conversion{}, err
		}
		if !change(&c) {
			return c, nil
		}
		c.Seq = max(c.Seq+1, c.UpdatedAt.UnixMilli()) // grows although a status may get lost
		raw, merr := json.Marshal(c)
		if merr != nil {
			return Conversion{}, fmt.Errorf("encode %s: %w", key, merr)
		}
		cond := objstore.IfAbsent()
		if etag != "" {
			cond = objstore.IfMatch(etag)
		}
		_, err = s.Put(ctx, key, raw, cond)
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, objstore.ErrLost) && !errors.Is(err, objstore.ErrUnknown) && !errors.Is(err, objstore.ErrNotFound) || ctx.Err() != nil {
			break
		}
	}
	return Conversion{}, fmt.Errorf("write %s: %w", key, err)
}

const conversionTries = 100

// Plan says which batches are to be converted, with the bytes of their files:
// all of them, whatever was thought before.
func (c *Conversion) Plan(batches map[string]int64, now time.Time) {
	if len(c.Pending) == 0 { // a new one
		c.BatchesDone, c.BatchesTotal, c.BytesDone, c.BytesTotal = 0, 0, 0, 0
		c.StartedAt = now.UTC()
	}
	c.Drop(batches, now)
	for _, name := range slices.Sorted(maps.Keys(batches)) {
		c.Add(name, batches[name], now)
	}
	c.settle(now)
}

// Drop takes batches for done that are not among those to be converted: a merge
// has seen to them. It is false where there are none.
func (c *Conversion) Drop(batches map[string]int64, now time.Time) bool {
	dropped := false
	for name := range c.Pending {
		if _, still := batches[name]; !still {
			c.finish(name)
			dropped = true
		}
	}
	c.settle(now)
	return dropped
}

// Add adds one batch, unless it is there.
func (c *Conversion) Add(name string, bytes int64, now time.Time) {
	if _, there := c.Pending[name]; there {
		return
	}
	if c.Pending == nil {
		c.Pending = map[string]int64{}
	}
	c.Pending[name] = bytes
	c.BatchesTotal++
	c.BytesTotal += bytes
	c.settle(now)
}

// Begin notes that somebody converts a batch, and how far that is.
func (c *Conversion) Begin(name string, at AtWork) {
	if c.Running == nil {
		c.Running = map[string]AtWork{}
	}
	c.Running[name] = at
	delete(c.Errors, name)
	c.settle(at.At)
}

// Done notes that a batch is converted.
func (c *Conversion) Done(name string, now time.Time) {
	c.finish(name)
	c.settle(now)
}

func (c *Conversion) finish(name string) {
	bytes, pending := c.Pending[name]
	if pending {
		c.BatchesDone++
		c.BytesDone += bytes
	}
	delete(c.Pending, name)
	delete(c.Running, name)
	delete(c.Errors, name)
}

// Fail notes why a batch is not converted.
func (c *Conversion) Fail(name, why string, now time.Time) {
	if c.Errors == nil {
		c.Errors = map[string]string{}
	}
	c.Errors[name] = why
	delete(c.Running, name)
	c.settle(now)
}

func (c *Conversion) settle(now time.Time) {
	maps.DeleteFunc(c.Running, func(_ string, w AtWork) bool { return now.Sub(w.At) > atWorkFor })
	c.UpdatedAt = now.UTC()
	switch {
	case len(c.Pending) == 0:
		c.State = ConversionDone
	case len(c.Running) == 0 && len(c.Errors) == len(c.Pending):
		c.State = ConversionFailed
	default:
		c.State = ConversionRunning
	}
}
