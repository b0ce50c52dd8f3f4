// Package embedded serves a folder as an S3 store, inside the process.
//
// The front end and the mapping to files are versitygw's. This package adds what
// a store of record needs: an answer is given only when the object is on the
// disk; each change is announced, in the order of changes to its key, before it
// is answered; reads and writes of one key exclude each other; and only one
// process serves a folder.
//
// The folder's file system must have extended attributes, where versitygw keeps
// ETags. A key cannot lie below another: "a" and "a/b" are a file and a folder of
// one name.
package embedded
