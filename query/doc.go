// Package query reads datasets: the rows of all or some batches in (id, batch)
// order, merged ones from blocks and, where asked for, live ones from chunks.
//
// A read starts with a snapshot of each batch: its chunk list first, where live
// rows are wanted, and its commit record second. Mergers go on meanwhile. What
// they take away under a reader shows as a missing object, and what that means
// depends on what is missing: a chunk was absorbed, so the record is read again;
// a block was replaced, so list and record are read again and the read goes on
// behind the last row that it gave. The same object missing twice under one
// generation is damage, and is reported by its key. A read never ends early
// without an error.
//
// Rows streams. An Engine answers the short questions that a viewer asks: a page
// of rows from anywhere, one row, counts, columns, what there is. It follows the
// same rules, asks a Catalog which chunks are live, reads frames and not blocks
// (a frame is checked by its own checksum and by the frame table; the SHA-256 of
// a whole block is not seen), and keeps what never changes: frame tables, frames
// and chunks.
//
// Memory does not grow with the number of rows: a batch has at most one block
// open, from the moment when the order of rows reaches its first id, and live
// rows are sorted in a bounded buffer that spills to disk.
package query
