package query

import (
	"encoding/json"
	"errors"
	"time"
)

// ErrCursor reports a cursor that no page of this dataset and order gave.
var ErrCursor = errors.New("bad cursor")

// PageRequest asks for a page of merged and live rows.
type PageRequest struct {
	Dataset string
	Batches []string // nil: all
	Columns []string // nil: all; otherwise id, _created_at, these and _batch
	Limit   int      // most rows, 1 to 1000; 50 when 0
	Cursor  string   // from another page of this dataset and order; empty: the first page
	Desc    bool     // rows from the last to the first
	Clip    int      // cut strings longer than so many characters; 0: none
}

// Page is a page of rows in (id, batch) order, or in the reverse of it.
type Page struct {
	Columns []string // id and _created_at first; without _batch, unless it was asked for
	// Rows are JSON objects with id, _batch, _created_at where the row has one,
	// and _silt_clipped where strings were cut.
	Rows []json.RawMessage
	// Next continues behind the last row; empty: there was nothing more.
	Next string
	// Prev ends before the first row, where rows may have arrived since. It is
	// empty only for a first page without rows.
	Prev      string
	LiveRows  int64 // rows in live chunks of the batches asked for
	Took      time.Duration
	BytesRead int64 // from the store
}
