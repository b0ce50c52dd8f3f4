// Package merger turns the live chunks of a batch, and the blocks that they
// touch, into new blocks, and commits them: nothing lost, nothing twice,
// nothing changed.
//
// A merge is an attempt that is made again until one of its commits holds, or
// nothing is left to do. An attempt lists chunks, reads the commit record and
// the run manifests, brings all rows into the order of their ids, decides which
// of them stay, writes blocks under names that nobody has used, and replaces
// the record by one conditional write. Until that write an attempt can end
// anywhere: what it leaves behind is named nowhere, and swept. After it, the
// rest (announcing, deleting absorbed chunks) can be done by anybody, any
// number of times.
//
// Memory is bounded by the budget of the sorters, whatever the size of a
// batch; docs/formats.md §2 and §5 have the rules that are kept here.
package merger
