// Package dataset holds the nouns of siltstone, and is the one place where an
// object key, a subject token or a canonical value is spelled.
//
// A dataset is a set of rows in batches. A row is one JSON object with an id.
// Writers store rows in chunks, each writer as a run of its own. A merge turns
// the live (unmerged) chunks of a batch into blocks. An annotator lays a layer
// beside a dataset: rows that refer to the dataset's rows by (batch, id).
//
// Nothing here does I/O: what can block is no noun.
package dataset
