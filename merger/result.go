package merger

import (
	"time"

	"github.com/siltstone-data/siltstone/dataset"
)

// Result says what a merge did.
type Result struct {
	Batch     dataset.BatchID `json:"-"`
	Committed bool            `json:"committed"`
	// Deleted means that the batch was removed: nothing is merged into it any
	// more, and chunks that lie there stay.
	Deleted bool `json:"deleted,omitempty"`
	// FullPass means that the rows of all blocks were decided again.
	FullPass bool `json:"full_pass,omitempty"`

	Generation int64  `json:"generation"` // that is current now; 0 for none
	Commit     string `json:"commit,omitempty"`
	Rows       int64  `json:"rows"` // of the batch

	// What this merge did, all 0 where it did not commit.
	Chunks      int   `json:"chunks"` // absorbed
	Added       int64 `json:"added"`
	Adopted     int64 `json:"adopted,omitempty"` // rows of another tool's merged files
	Duplicates  int64 `json:"duplicates"`
	Rejected    int64 `json:"rejected"`
	IDConflicts int64 `json:"id_conflicts"`
	Written     int   `json:"blocks_written"`
	Kept        int   `json:"blocks_kept"`

	Attempts int           `json:"attempts"`
	Took     time.Duration `json:"took"`
}
