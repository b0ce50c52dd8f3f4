// Package catalog decides what exists: it is the only reader and writer of
// commit records and run manifests.
//
// A commit record names the blocks of a batch and the chunks that they have
// absorbed. It changes by compare-and-swap alone, and that is the one thing
// that makes merging correct. The rules come out of a model check; each is
// told where it is kept, and docs/formats.md §5 tells them together.
package catalog
