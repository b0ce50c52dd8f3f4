package bus

import "github.com/nats-io/nats.go/jetstream"

// Kill ends the connection as a killed process would: nothing is sent any more.
func (b *Bus) Kill() { b.nc.Close() }

// JetStream is the library's view of the server, for looking behind the bus.
func (b *Bus) JetStream() jetstream.JetStream { return b.js }

// StreamName and Subject spell a name as the package does.
func (b *Bus) StreamName(s string) string          { return b.names.stream(s) }
func (b *Bus) BucketStream(k Bucket) string        { return b.names.bucketStream(k) }
func (b *Bus) Subject(parts ...string) string      { return b.names.subject(parts...) }
func JobSubject(scope string, j Job) string        { return names{scope}.job(j) }
func WhenSubject(scope, w string, j Job) string    { return names{scope}.when(w, j) }
func ParseJobSubject(scope, s string) (Job, error) { return names{scope}.parseJob(s) }
func ParseWhenSubject(scope, s string) (string, Job, error) {
	return names{scope}.parseWhen(s)
}
