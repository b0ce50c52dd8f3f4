package bus

import (
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/siltstone-data/siltstone/dataset"
)

// TopologyVersion grows with every change of the wanted streams, buckets and
// durables. An asset of a later version is left alone, so that two releases
// side by side do not undo each other's changes.
const TopologyVersion = 1

const (
	metaApp     = "siltstone-scope"
	metaVersion = "siltstone-topology"
)

// markerLife is how long the mark of a deleted key stays. A follower that was
// away for longer than half of it reads the bucket anew.
const markerLife = time.Hour

// Kinds are the kinds of job.
func Kinds() []string { return []string{KindMerge, KindIndex, KindConvert} }

// The kinds of job.
const (
	KindMerge   = "merge"
	KindIndex   = "index"
	KindConvert = "convert"
)

// The durables.
const (
	Normalizer = "normalizer" // NOTIFICATIONS: store notifications become events
	Cataloger  = "cataloger"  // EVENTS: the catalog bucket
	Planner    = "planner"    // EVENTS: what makes a job due
	Indexer    = "indexer"    // EVENTS: what makes an index due
	Merger     = "merger"     // JOBS of kind merge
)

// jobDurable is the durable that hands out the jobs of a kind.
func jobDurable(kind string) string {
	if kind == KindMerge {
		return Merger
	}
	return kind
}

// Assets are what a scope has on the server.
type Assets struct {
	Streams  []jetstream.StreamConfig // KV buckets are streams too
	Durables []Durable
}

// Durable is a named JetStream consumer of a stream.
type Durable struct {
	Stream string
	Config jetstream.ConsumerConfig
}

// Desired is the wanted topology of a scope: a pure function.
func Desired(scope string, replicas int) Assets {
	return desired(names{scope}, replicas, Timing{}.withDefaults())
}

func desired(n names, replicas int, t Timing) Assets {
	var d Assets
	scope := n.scope
	stream := func(name, about string, subjects []string, set func(*jetstream.StreamConfig)) {
		c := base(n.stream(name), about, scope, replicas)
		c.Subjects = subjects
		set(&c)
		d.Streams = append(d.Streams, c)
	}
	stream(Notifications, "notifications of the object store, as they came", []string{n.subject("notify", ">")}, func(c *jetstream.StreamConfig) {
		c.MaxAge, c.MaxBytes = 24*time.Hour, 512<<20
	})
	stream(Events, "domain events", []string{n.subject("event", ">")}, func(c *jetstream.StreamConfig) {
		c.MaxAge, c.MaxBytes = 7*24*time.Hour, 2<<30
		c.Duplicates = 30 * time.Minute
		// A gap in the sequence then always means that limits dropped events.
		c.DenyDelete, c.DenyPurge = true, true
	})
	stream(JobQueue, "jobs, the newest per subject, and the schedules that become jobs", []string{n.subject("job", ">"), n.subject("when", ">")}, func(c *jetstream.StreamConfig) {
		c.Retention = jetstream.WorkQueuePolicy
		// DiscardOld, so that a wake-up during a run replaces the message that
		// the run holds, and is delivered afterwards. No age: a waiting job
		// must not expire.
		c.MaxMsgsPerSubject, c.MaxMsgSize = 1, 64<<10
		c.AllowMsgSchedules, c.AllowRollup = true, true // the first brings the second
	})
	stream(Rows, "rows written through NATS alone", []string{n.subject("rows", ">")}, func(c *jetstream.StreamConfig) {
		c.Retention = jetstream.WorkQueuePolicy
		// A full queue refuses rows: the writer still has them.
		c.Discard, c.MaxBytes = jetstream.DiscardNew, 2<<30
	})
	stream(DeadLetters, "what was given up, with the reason in the headers", []string{n.subject("dead", ">")}, func(c *jetstream.StreamConfig) {
		c.MaxAge, c.MaxBytes, c.Duplicates = 30*24*time.Hour, 512<<20, time.Hour
	})
	for _, b := range Buckets() {
		d.Streams = append(d.Streams, bucketConfig(n, b, replicas, t))
	}
	d.Durables = durables(n, t)
	return d
}

func base(name, about, scope string, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: name, Description: about, Storage: jetstream.FileStorage, Replicas: replicas,
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1, MaxMsgSize: -1,
		// Every viewer and every follower holds an ephemeral consumer.
		MaxConsumers: -1,
		Duplicates:   2 * time.Minute, AllowDirect: true,
		Metadata: map[string]string{metaApp: scope, metaVersion: strconv.Itoa(TopologyVersion)},
	}
}

// bucketConfig is what a KV bucket is to the server; other NATS tools find it
// under the bucket's name.
func bucketConfig(n names, b Bucket, replicas int, t Timing) jetstream.StreamConfig {
	c := base(n.bucketStream(b), map[Bucket]string{
		Catalog:   "datasets, batches with their generation, live chunks",
		Cache:     "query results, a life per key",
		Claims:    "who works on which job",
		Tries:     "attempts, next try and last error of jobs",
		Lead:      "leader election",
		Pipelines: "definitions, offsets and file states",
	}[b], n.scope, replicas)
	c.Subjects = []string{"$KV." + n.bucket(b) + ".>"}
	c.MaxMsgsPerSubject = 1
	c.Discard = jetstream.DiscardNew
	c.AllowRollup, c.DenyDelete = true, true
	// Marks of deleted keys have a life of their own; a bucket would keep one
	// for every key that ever was.
	c.AllowMsgTTL = true
	switch b {
	case Claims:
		c.SubjectDeleteMarkerTTL = 10 * time.Second // followers hear of claims that ran out
	case Lead:
		c.MaxAge, c.Duplicates = t.LeadTTL, min(t.LeadTTL, 2*time.Minute)
		c.SubjectDeleteMarkerTTL = time.Second
	case Cache:
		c.Discard, c.MaxBytes = jetstream.DiscardOld, 256<<20
		c.SubjectDeleteMarkerTTL = time.Minute
	}
	return c
}

func durables(n names, t Timing) []Durable {
	durable := func(stream, name, about string, filters ...string) Durable {
		c := jetstream.ConsumerConfig{
			Durable: name, Name: name, Description: about,
			AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverAllPolicy,
			AckWait: t.AckWait,
			// Attempts are counted here, not by the server, which would leave a
			// message that reached its limit in the queue for ever.
			MaxDeliver: -1, MaxAckPending: 1024, MaxWaiting: 512,
			Metadata: map[string]string{metaApp: n.scope, metaVersion: strconv.Itoa(TopologyVersion)},
		}
		if len(filters) == 1 {
			c.FilterSubject = filters[0]
		} else {
			c.FilterSubjects = filters
		}
		if stream == JobQueue {
			c.MaxAckPending = -1 // jobs that wait out a delay hold a slot each
		}
		return Durable{Stream: n.stream(stream), Config: c}
	}
	events := func(types ...dataset.EventType) (out []string) {
		for _, t := range types {
			out = append(out, n.eventType(dataset.Token(string(t))))
		}
		return out
	}
	return []Durable{
		durable(Notifications, Normalizer, "store notifications become events", n.subject("notify", ">")),
		durable(Events, Cataloger, "keeps the catalog bucket", events(dataset.RowsIngested, dataset.RunCompleted,
			dataset.BatchMerged, dataset.AnnotationUpdated, dataset.ObjectsDeleted)...),
		durable(Events, Planner, "decides what makes a job due", events(dataset.RowsIngested, dataset.RunCompleted,
			dataset.AnnotationUpdated)...),
		durable(Events, Indexer, "asks for indexes of new blocks", events(dataset.BatchMerged, dataset.AnnotationUpdated)...),
		durable(JobQueue, Merger, "hands out merge jobs", n.jobs(KindMerge)),
		durable(JobQueue, KindIndex, "hands out index jobs", n.jobs(KindIndex)),
		durable(JobQueue, KindConvert, "hands out convert jobs", n.jobs(KindConvert)),
	}
}

func filtersOf(c jetstream.ConsumerConfig) []string {
	f := slices.Clone(c.FilterSubjects)
	if c.FilterSubject != "" {
		f = append(f, c.FilterSubject)
	}
	slices.Sort(f)
	return f
}
