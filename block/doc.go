// Package block holds rows as bytes: it reads and writes NDJSON lines and
// blocks, and puts records in order with bounded memory.
//
// A block is a gzip file of several members, called frames. A frame ends at the
// first row end past 128 KiB of raw bytes, so whoever knows the frames' offsets
// reads any row with one ranged request, and everybody else reads the file as
// any other gzip file. Rows in a block ascend by id.
//
// A parquet block holds the rows of a very large dataset in typed columns, and
// the line itself only where the columns would not give it back byte for byte.
// Its frames are row groups of some 1 MiB of lines.
//
// What a block must hold is written in the commit record: gzip does not notice
// a file cut between two members, so Reader compares rows, bytes and SHA-256.
package block
