// Package index makes blocks quick to search: for each block an index says
// where each row is, and for each batch a summary says which blocks it has.
//
// An index is a parquet file beside the batch, one row for each row of its
// block and in the same order: the row's id, when it was created, and the frame
// of the block that holds it. The frame table is in the file's metadata: with
// it, any row of the block is one ranged read away. A lookup asks the bloom
// filter first and then reads one page of ids.
//
// Everything here is derived from blocks and commit records, may be deleted at
// any time and is built again: a block that has no index is read whole. Like
// its block, an index is created once and never changes, and two builders of
// one index write the same bytes. docs/formats.md §6 describes the files.
package index
