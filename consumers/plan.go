package consumers

import (
	"time"

	"github.com/siltstone-data/siltstone/catalog"
)

// Trigger is what the planner knows when something happened to a batch.
type Trigger struct {
	// Chunk says that a chunk lies in the store, absorbed or not: one that was
	// absorbed and is still there is deleted by the next merge.
	Chunk bool
	// Run is the state of a run that changed, or "".
	Run string
	// Unmerged is how many bytes of live chunks the batch has.
	Unmerged int64
	// Asked says that this many bytes have made a job due before, and that no
	// merge has ended since.
	Asked bool
}

// Policy says when a batch is merged.
type Policy struct {
	Quiet    time.Duration // after a trigger, when no more come: 2 s
	MaxAge   time.Duration // after a trigger, although more come: 60 s
	MinBytes int64         // at once, when so much is unmerged: 64 MiB
}

func (p Policy) withDefaults() Policy {
	if p.Quiet <= 0 {
		p.Quiet = 2 * time.Second
	}
	if p.MaxAge <= 0 {
		p.MaxAge = 60 * time.Second
	}
	if p.MinBytes <= 0 {
		p.MinBytes = 64 << 20
	}
	return p
}

// Decision says when a merge job becomes due.
type Decision string

// The decisions.
const (
	Never Decision = "never" // nothing happened that a merge would change
	Later Decision = "later" // when triggers pause, or after a while although they do not
	Now   Decision = "now"
)

// Decide is the planner's rules, a pure function.
func Decide(t Trigger, p Policy) Decision {
	switch {
	case t.Run == catalog.RunCompleted, t.Run == catalog.RunFailed:
		return Now // its writer waits for nothing more
	case !t.Chunk && t.Run == "":
		return Never
	case t.Unmerged >= p.MinBytes && !t.Asked:
		return Now
	}
	return Later
}
