// Package bus carries typed events and jobs over NATS JetStream.
//
// An event says that something happened to a batch; a durable (a JetStream
// consumer with a name) hands it to a handler. A job is work that a batch
// needs; however often it is asked for, it waits once, and one worker at a
// time claims it. KV buckets hold small state that everybody follows.
//
// Acknowledging is a return value: nil is done, an error comes again later with
// a growing delay, and what fails for good goes to the dead letters with the
// reason. No type of the NATS library leaves this package.
//
// Everything in NATS can be lost and is found again from the object store, and
// no promise rests on the deduplication window, on a claim or on leadership:
// they save double work, nothing more.
package bus
