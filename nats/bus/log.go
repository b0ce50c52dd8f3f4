package bus

// The keys of this package's log lines.
const (
	keyErr        = "err"
	keyURL        = "url"
	keySubject    = "subject"
	keyStream     = "stream"
	keyDurable    = "durable"
	keyKind       = "kind"
	keyJob        = "job"
	keySeq        = "seq"
	keyTries      = "tries"
	keyDeliveries = "deliveries"
	keyWait       = "wait"
	keyTask       = "task"
	keyStack      = "stack"
	keyBucket     = "bucket"
	keyPending    = "pending"
)
