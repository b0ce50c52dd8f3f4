// Package cache keeps what never changes near at hand: bytes of immutable
// objects in a folder (Disk), and what was made of them in memory (Memory).
//
// Both are bounded in bytes and give up first what was asked for longest ago.
// Both load a thing once, however many ask for it at the same time. Neither is
// ever a source of errors: where a cache cannot keep a thing, the caller gets
// it all the same.
package cache
