// Package consumers holds what reacts to events and what looks after the store
// when no event comes: one file and one exported type for each.
//
//	type         what it is           reads                     does
//	Normalizer   durable normalizer   NOTIFICATIONS             store notifications become domain events
//	Cataloger    durable cataloger    EVENTS                    keeps the catalog bucket
//	Planner      durable planner      EVENTS                    decides when a merge job is due
//	Indexer      durable indexer      EVENTS, jobs of kind      builds the indexes of new blocks
//	             and job kind index   index
//	Reconciler   leader task          the store, page by page   finds what no event told
//	Sweeper      leader task          the catalog bucket        deletes what no record can name again
//
// A durable is a JetStream consumer with a name; any number of processes share
// its events. A leader task runs in one process at a time, which saves double
// work and proves nothing: everything here may run twice at once.
//
// Events are hints. Each handler reads the present state of what an event names
// and writes by the revision that it read before, so that lost, doubled, late
// and reversed events change when something happens and never what comes out.
// The reconciler turns "lost" into "late".
//
// A trigger writes the catalog, then schedules, then acknowledges. Cataloger and
// Planner are durables of their own that receive the same events at the same
// time, so the Planner does not wait for the other: what the Cataloger would
// write for an event the Planner writes itself first, where it is not there yet.
// Both use the ledger, whose writes are idempotent and by revision.
package consumers
