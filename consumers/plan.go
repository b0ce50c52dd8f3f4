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
	// Spread is how many bytes of blocks a merge of the batch has to write again,
	// as far as is known.
	Spread int64
}

// Policy says when a batch is merged.
//
// A batch whose new ids lie among those that are merged (random ones, say) has
// its blocks written again by each merge. Once that is MinBytes or more it is
// merged by size and not by quiet: when live chunks have come to an eighth of what
// a merge has to write again, or to 16 times MinBytes, and in any case after a
// time in which that could be written at 4 MiB a second. Readers see live rows
// meanwhile.
type Policy struct {
	Quiet    time.Duration // after a trigger, when no more come: 2 s
	MaxAge   time.Duration // after a trigger, although more come: 60 s
	MinBytes int64         // at once, when so much is unmerged: 64 MiB
}

const (
	lazyShare  = 8       // of what is written again, that must be unmerged
	lazyMost   = 16      // times MinBytes, that are always enough
	lazyEnd    = 8       // times MinBytes, that the end of a run is worth
	lazyPace   = 4 << 20 // bytes a second
	lazyMaxAge = 24 * time.Hour
)

// lazy tells whether so much is to be written again that it has to pay.
func (p Policy) lazy(spread int64) bool { return spread >= p.MinBytes }

// Enough is how many bytes of live chunks make a merge due at once.
func (p Policy) Enough(spread int64) int64 {
	if !p.lazy(spread) {
		return p.MinBytes
	}
	return min(spread/lazyShare, lazyMost*p.MinBytes)
}

// Waits says how long a merge waits for more chunks: after the last, and after
// the first.
func (p Policy) Waits(spread int64) (quiet, most time.Duration) {
	if !p.lazy(spread) {
		return p.Quiet, p.MaxAge
	}
	age := max(p.MaxAge, lazyMaxAge)
	if s := spread / lazyPace; s < int64(lazyMaxAge/time.Second) {
		age = min(age, p.MaxAge+time.Duration(s)*time.Second)
	}
	return age, age
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
	ended := t.Run == catalog.RunCompleted || t.Run == catalog.RunFailed
	switch {
	case !t.Chunk && t.Run == "":
		return Never
	case ended && t.Spread < lazyEnd*p.MinBytes:
		return Now // its writer waits for nothing more
	case t.Unmerged >= p.Enough(t.Spread) && (ended || !t.Asked):
		return Now
	}
	return Later
}
