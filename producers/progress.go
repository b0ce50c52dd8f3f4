package producers

import (
	"sync"
	"time"
)

// Progress says how far annotating is.
type Progress struct {
	Done   int64 // rows annotated and stored
	Failed int64
	// Left is how many rows are still to be done, -1 where that is not known: with
	// a filter it is an estimate.
	Left      int64
	PerSecond float64       // of rows done or failed, lately
	TimeLeft  time.Duration // 0: not known
	Spent     float64       // of the budget's field
	Following bool          // waits for batches to merge
}

// AnnotateResult says what a worker of an annotator did.
type AnnotateResult struct {
	Dataset   string `json:"dataset"`
	Annotator string `json:"annotator"`
	Rows      int64  `json:"rows"`     // annotated, and stored
	Failed    int64  `json:"failed"`   // left to the next run
	Unstored  int64  `json:"unstored"` // annotated, but not known to be stored
	Calls     int64  `json:"calls"`    // more than rows where calls were made again
	Runs      int    `json:"runs"`
	Chunks    int    `json:"chunks"`
	Bytes     int64  `json:"bytes"`
	// Spent is the sum of the budget's field in the metadata.
	Spent *float64 `json:"spent,omitempty"`
	// Stopped says why not all rows were come to: "budget", "interrupted" or
	// "lease"; empty otherwise.
	Stopped string   `json:"stopped"`
	Reasons []Reason `json:"reasons"`
	// Unknown are columns of the filter that no row had.
	Unknown []string `json:"unknown_columns,omitempty"`
}

// Reasons for stopping.
const (
	StoppedByBudget    = "budget"
	StoppedByInterrupt = "interrupted"
	StoppedByLease     = "lease"
)

// tally counts what becomes of rows.
type tally struct {
	mu       sync.Mutex
	calls    int64
	answered int64 // annotated, stored or not
	stored   int64
	failed   int64
	spent    float64
	unpriced int64 // annotations that do not say what they cost
}

func (t *tally) count(fn func(*tally)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fn(t)
}

// rateMeter tells how fast a count grows.
type rateMeter struct {
	at   time.Time
	rows int64
	rate float64
}

// rateAfter gives the rate of the last ten seconds or so.
func (m *rateMeter) rateAfter(now time.Time, rows int64) float64 {
	if m.at.IsZero() {
		m.at, m.rows = now, rows
		return 0
	}
	d := now.Sub(m.at).Seconds()
	if d < 0.2 {
		return m.rate
	}
	lately := float64(rows-m.rows) / d
	if weight := min(1, d/10); m.rate == 0 {
		m.rate = lately
	} else {
		m.rate += (lately - m.rate) * weight
	}
	m.at, m.rows = now, rows
	return m.rate
}
