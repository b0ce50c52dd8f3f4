package query

import "time"

// DatasetInfo sums up a dataset.
type DatasetInfo struct {
	Name    string `json:"name"`
	Batches int    `json:"batches"`
	Rows    int64  `json:"rows"`  // merged
	Bytes   int64  `json:"bytes"` // of blocks, as stored
	// LiveRows is the number of rows in live chunks, -1 where it is unknown. A
	// merge may find some of them to be duplicates.
	LiveRows   int64     `json:"live_rows"`
	LiveChunks int64     `json:"live_chunks"`
	Annotators []string  `json:"annotators"`
	UpdatedAt  time.Time `json:"updated_at,omitzero"` // of the last commit; zero: nothing is merged
}

// BatchInfo sums up a batch.
type BatchInfo struct {
	Name       string    `json:"name"`
	Rows       int64     `json:"rows"`
	Bytes      int64     `json:"bytes"`
	Generation int64     `json:"generation"` // 0: nothing is merged
	LiveRows   int64     `json:"live_rows"`  // as in DatasetInfo
	LiveChunks int64     `json:"live_chunks"`
	UpdatedAt  time.Time `json:"updated_at,omitzero"`
}
