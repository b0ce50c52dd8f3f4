// Package producers is the way into a dataset: a writer puts rows as chunks and
// announces them, and inputs turn files into rows.
//
// A run is one writer's stay in a batch: it claims a run id, puts chunks under
// it and closes it. It is never resumed. A chunk is an object of some rows, put
// once under a name of its own and never changed; a row counts as written once
// its chunk is stored. Announcing a chunk only tells others sooner: a chunk that
// nobody announced is found all the same.
package producers
