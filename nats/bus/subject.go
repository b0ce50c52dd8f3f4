package bus

import (
	"fmt"
	"slices"
	"strings"

	"github.com/siltstone-data/siltstone/dataset"
)

// Every subject, stream, bucket and KV key is spelled in this file and nowhere
// else; docs/formats.md and nats/README.md say what they mean.

const root = "silt"

// The two schedules that can turn into a job.
const (
	Quiet = "quiet" // replaced by every trigger: fires when triggers pause
	Max   = "max"   // kept by every trigger: fires although they do not
)

// Bucket names a KV bucket.
type Bucket string

// The KV buckets.
const (
	Catalog   Bucket = "catalog"   // datasets, batches with their generation, live chunks
	Cache     Bucket = "cache"     // query results, a TTL per key
	Claims    Bucket = "claims"    // who works on which job
	Tries     Bucket = "tries"     // attempts, next try, last error
	Lead      Bucket = "lead"      // leader election
	Pipelines Bucket = "pipelines" // definitions, offsets, file states
)

// Buckets are all KV buckets.
func Buckets() []Bucket { return []Bucket{Catalog, Cache, Claims, Tries, Lead, Pipelines} }

// The streams, without their scope.
const (
	Notifications = "NOTIFICATIONS"
	Events        = "EVENTS"
	JobQueue      = "JOBS"
	Rows          = "ROWS"
	DeadLetters   = "DEADLETTERS"
)

type names struct{ scope string }

func (n names) subject(parts ...string) string {
	return root + "." + n.scope + "." + strings.Join(parts, ".")
}

func (n names) stream(name string) string       { return "SILT_" + n.scope + "_" + name }
func (n names) bucket(b Bucket) string          { return "silt_" + n.scope + "_" + string(b) }
func (n names) bucketStream(b Bucket) string    { return "KV_" + n.bucket(b) }
func (n names) key(b Bucket, key string) string { return "$KV." + n.bucket(b) + "." + key }
func (n names) notify() string                  { return n.subject("notify", "s3") }
func (n names) event(e dataset.Event) string    { return n.eventOf(e.Dataset, e.Batch, e.Type) }
func (n names) eventType(t string) string       { return n.subject("event", "*", "*", t) }
func (n names) jobs(kind string) string         { return n.subject("job", kind, ">") }
func (n names) job(j Job) string                { return n.subject("job", j.Kind, j.Batch.Tokens()) }
func (n names) when(schedule string, j Job) string {
	return n.subject("when", schedule, j.Kind, j.Batch.Tokens())
}

func (n names) eventOf(ds, batch string, t dataset.EventType) string {
	return n.subject("event", dataset.Token(ds), dataset.Token(batch), dataset.Token(string(t)))
}

// RowsSubject is where rows of a batch are published to be packed into chunks.
func (b *Bus) RowsSubject(id dataset.BatchID) string {
	return b.names.subject("rows", id.Tokens())
}

// NotifySubject is where an object store that speaks NATS sends its
// notifications to.
func (b *Bus) NotifySubject() string { return b.names.notify() }

// dead is the subject of the dead letter for a message that a durable gave up.
func (n names) dead(durable, subject string) string {
	rest, ok := strings.CutPrefix(subject, root+"."+n.scope+".")
	if !ok {
		rest = "foreign." + dataset.Token(subject)
	}
	return n.subject("dead", durable, rest)
}

// parseJob reads the subject of a job.
func (n names) parseJob(subject string) (Job, error) {
	rest, ok := strings.CutPrefix(subject, n.subject("job", ""))
	if !ok {
		return Job{}, fmt.Errorf("subject %q is no job of scope %s", subject, n.scope)
	}
	return parseJobTokens(rest)
}

// parseWhen reads the subject of a schedule.
func (n names) parseWhen(subject string) (schedule string, j Job, err error) {
	rest, ok := strings.CutPrefix(subject, n.subject("when", ""))
	schedule, rest, cut := strings.Cut(rest, ".")
	if !ok || !cut || schedule != Quiet && schedule != Max {
		return "", Job{}, fmt.Errorf("subject %q is no schedule of scope %s", subject, n.scope)
	}
	j, err = parseJobTokens(rest)
	return schedule, j, err
}

func parseJobTokens(s string) (Job, error) {
	kind, rest, ok := strings.Cut(s, ".")
	if !ok || !slices.Contains(Kinds(), kind) {
		return Job{}, fmt.Errorf("%q names no job", s)
	}
	id, err := dataset.ParseTokens(rest)
	if err != nil {
		return Job{}, fmt.Errorf("job %q: %w", s, err)
	}
	return Job{Kind: kind, Batch: id}, nil
}
