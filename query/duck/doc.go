// Package duck runs expressions in SQL over rows, in a DuckDB that can reach
// nothing else.
//
// An expression is text that a person wrote. Compile has it parsed by DuckDB,
// walks the tree, and takes it only if each node and each function is one of
// those known to be harmless: there is no table, file, setting, clock or random
// number to be named, and no way to make a value much longer than what it was
// made from. What runs is the text that DuckDB makes of the checked tree, not
// the one that was written.
//
// Rows come from Go, in windows: DuckDB opens no file and keeps no table. The
// values of a row have the types that they have in that row (see Batch), so that
// what is said of a row depends on that row alone: not on the window, block or
// batch that it came in, nor on what other rows hold.
//
// One expression may take long for a single row, and DuckDB looks up from its
// work only between vectors. Whoever cancels has control back at once; the
// connection comes back to the pool when DuckDB is done with it. While all are
// away, ErrBusy is the answer.
package duck
