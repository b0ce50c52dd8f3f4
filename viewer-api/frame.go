package viewerapi

import (
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
)

// frame is a piece of an event stream, encoded once for all clients.
type frame struct {
	seq     uint64 // position of its event; 0 for a frame that is for everybody
	dataset string
	bytes   []byte
	at      time.Time // when the event arrived in this process
}

// hidden are the events that browsers have no use for.
var hidden = map[dataset.EventType]bool{dataset.ObjectsDeleted: true}

// typeName keeps whoever may publish from writing frames of their own.
var typeName = regexp.MustCompile(`^[a-z]+_[a-z_]+$`)

// eventFrame encodes a domain event; nil for one that is not sent.
func eventFrame(t bus.Tailed, now time.Time) (*frame, error) {
	if hidden[t.Event.Type] || !typeName.MatchString(string(t.Event.Type)) {
		return nil, nil
	}
	data, err := json.Marshal(t.Event)
	if err != nil {
		return nil, fmt.Errorf("encode event %s: %w", t.Position, err)
	}
	return &frame{seq: t.Seq, dataset: t.Event.Dataset, at: now, bytes: encode(string(t.Event.Type), t.Position, data)}, nil
}

// encode writes one event of a stream. Neither a type nor encoded JSON has line
// ends.
func encode(event string, p bus.Position, data []byte) []byte {
	b := make([]byte, 0, len(event)+len(data)+64)
	b = append(append(b, "event: "...), event...)
	if p != (bus.Position{}) {
		b = append(append(b, "\nid: "...), p.String()...)
	}
	b = append(append(b, "\ndata: "...), data...)
	return append(b, "\n\n"...)
}

// connectedFrame is the first of each stream. Its id is where the client stands,
// so that one that is cut off before its first event comes back to that place.
func connectedFrame(p bus.Position) []byte {
	return append([]byte("retry: 2000\n"), encode("connected", p, fmt.Appendf(nil, `{"position":%q}`, p.String()))...)
}

// resetFrame tells a client to read the state anew, as it is at p or later.
func resetFrame(p bus.Position) []byte {
	return encode("reset", p, fmt.Appendf(nil, `{"position":%q}`, p.String()))
}

// heartbeat is a comment, and moves the position of a client on: a filter may
// let nothing through for so long that the position it has seen is gone.
func heartbeat(p bus.Position) []byte {
	if p == (bus.Position{}) {
		return []byte(":\n\n")
	}
	return []byte(":\nid: " + p.String() + "\n\n")
}
