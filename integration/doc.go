// Package integration holds tests that need two rooms or a real server:
// simulated schedules of whole systems, stores, crash campaigns. It exports
// nothing.
package integration
