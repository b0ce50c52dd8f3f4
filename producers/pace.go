package producers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Rate is how many calls may begin in a second; 0 is no limit.
type Rate float64

// ParseRate reads 10/s, 600/m or 5/h.
func ParseRate(s string) (Rate, error) {
	number, unit, _ := strings.Cut(s, "/")
	per, known := map[string]float64{"s": 1, "m": 60, "h": 3600}[strings.TrimSpace(unit)]
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !known || err != nil || !(n > 0) || math.IsInf(n, 0) {
		return 0, fmt.Errorf("rate %q: want calls per second, minute or hour, such as 10/s, 600/m or 5/h", s)
	}
	return Rate(n / per), nil
}

// pacer lets calls begin at a rate. It allows for no more at once than came due
// in a tenth of a second, so that the calls of one second never come in its last
// moment.
type pacer struct {
	every time.Duration // 0: no limit
	burst time.Duration

	mu   sync.Mutex
	next time.Time // when the next call is due
}

func newPacer(r Rate) *pacer {
	if r <= 0 {
		return &pacer{}
	}
	every := time.Duration(float64(time.Second) / float64(r))
	return &pacer{every: max(every, 1), burst: max(0, 100*time.Millisecond-every)}
}

// wait waits for the turn of a call.
func (p *pacer) wait(ctx context.Context) error {
	if p.every == 0 {
		return nil
	}
	p.mu.Lock()
	now := time.Now()
	if earliest := now.Add(-p.burst); p.next.Before(earliest) {
		p.next = earliest
	}
	due := p.next
	p.next = p.next.Add(p.every)
	p.mu.Unlock()
	if d := due.Sub(now); d > 0 {
		return sleep(ctx, d)
	}
	return nil
}

// Limit is a bound on the sum of a numeric field of the metadata.
type Limit struct {
	Field string
	Most  float64
}

// ParseLimit reads FIELD=LIMIT.
func ParseLimit(s string) (Limit, error) {
	field, most, _ := strings.Cut(s, "=")
	n, err := strconv.ParseFloat(most, 64)
	if err != nil || field == "" || !(n > 0) || math.IsInf(n, 0) {
		return Limit{}, fmt.Errorf("budget %q: want a field of the metadata and the most that its sum may be, such as cost_usd=5", s)
	}
	return Limit{field, n}, nil
}

// ErrBudget reports that annotations do not say what they cost, so that no
// budget can be kept.
var ErrBudget = errors.New("the budget cannot be kept")
