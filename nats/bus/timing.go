package bus

import "time"

// Timing holds the delays and limits of the bus. The zero value of a field
// means its default; only tests have a reason to set one.
type Timing struct {
	AckWait    time.Duration // how long a silent handler keeps its message: 30 s
	ClaimTTL   time.Duration // how long a claim on a job outlives its worker: 30 s, at least 1 s
	LeadTTL    time.Duration // how long leadership outlives its holder: 10 s, at least 1 s
	JobWait    time.Duration // first delay of a failed job, then three times the last: 2 s
	JobMaxWait time.Duration // its longest delay: 5 min
	Tries      int           // runs of a job before it is given up: 8
	Wait       time.Duration // first delay of a failed event, then twice the last: 200 ms
	MaxWait    time.Duration // its longest delay: 30 s
	Deliveries int           // deliveries of an event before it is given up: 20
	Publish    time.Duration // how long a publish waits for a stream that does not answer: 10 s
	Watch      time.Duration // how often an idle durable is checked for being stuck: 1 min
}

func (t Timing) withDefaults() Timing {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&t.AckWait, 30*time.Second)
	def(&t.ClaimTTL, 30*time.Second)
	def(&t.LeadTTL, 10*time.Second)
	def(&t.JobWait, 2*time.Second)
	def(&t.JobMaxWait, 5*time.Minute)
	def(&t.Wait, 200*time.Millisecond)
	def(&t.MaxWait, 30*time.Second)
	def(&t.Publish, 10*time.Second)
	def(&t.Watch, time.Minute)
	// The server refuses shorter lives of single messages and of markers.
	t.ClaimTTL = max(t.ClaimTTL, time.Second)
	t.LeadTTL = max(t.LeadTTL, time.Second)
	if t.Tries <= 0 {
		t.Tries = 8
	}
	if t.Deliveries <= 0 {
		t.Deliveries = 20
	}
	return t
}
