// Package block holds rows as bytes: it reads and writes NDJSON lines and
// blocks, and puts records in order with bounded memory.
//
// A block is a gzip file of several members, called frames. A frame ends at the
// first row end past 128 KiB of raw bytes, so whoever knows the frames' offsets
// reads any row with one ranged request, and everybody else reads the file as
// any other gzip file. Rows in a block ascend by id.
//
// What a block must hold is written in the commit record: gzip does not notice
// a file cut between two members, so Reader compares rows, bytes and SHA-256.
package block
