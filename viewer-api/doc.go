// Package viewerapi serves the viewer: pages of rows, what there is, jobs, and
// the domain events as they happen, over HTTP under /api, with the page itself
// beside it.
//
// Errors are problem documents (RFC 9457), and one table says which error has
// which status. Values of rows leave as they are stored: numbers keep their
// digits, because no row is decoded on its way out.
//
// Events reach browsers as server-sent events. One follower per process reads
// them from the bus and hands each, encoded once, to every client. A client that
// comes back with the position it has seen gets what it missed, or is told to
// read the state anew; one that does not keep up is cut off, and comes back.
//
// What exists is asked of a Followed catalog: it follows the catalog bucket and
// answers from memory, but only while that bucket is known to be whole. Until
// then, and while NATS is away, the store is listed.
package viewerapi
