package query

// Column describes a column of a dataset, from the rows that were looked at.
type Column struct {
	Name  string   `json:"name"`
	Types []string `json:"types"` // of "string", "number", "boolean", "object", "array"; sorted
	Nulls int64    `json:"nulls"` // rows, of those looked at, where it is null or missing
	// Lean columns hold booleans, numbers or strings of at most 64 bytes, of one
	// type: an index can keep them.
	Lean   bool   `json:"lean"`
	Source string `json:"source"` // "base"
	Rows   int64  `json:"rows"`   // that were looked at
	Sample bool   `json:"sample"` // these were not all rows
}
