package dataset

import (
	"encoding/json"
	"fmt"
	"time"
)

// EventType names a kind of domain event; it is also the last subject token.
type EventType string

// The domain events, as docs/formats.md lists them.
const (
	RowsIngested       EventType = "rows_ingested"
	RunCompleted       EventType = "run_completed"
	BatchMerged        EventType = "batch_merged"
	AnnotationUpdated  EventType = "annotation_updated"
	IndexRefreshed     EventType = "index_refreshed"
	ConversionProgress EventType = "conversion_progress"
	ObjectsDeleted     EventType = "objects_deleted"
)

// Event says that something happened to a batch. Events are hints: whoever
// receives one reads the present state of what it names.
type Event struct {
	Version   int       `json:"version"`
	Type      EventType `json:"type"`
	Dataset   string    `json:"dataset"`
	Batch     string    `json:"batch"`
	Annotator *string   `json:"annotator"`
	At        time.Time `json:"at"`

	Key       string `json:"key,omitempty"`
	ETag      string `json:"etag,omitempty"`
	Sequencer string `json:"sequencer,omitempty"`
	Run       Run    `json:"run,omitempty"`
	State     string `json:"state,omitempty"`
	Commit    string `json:"commit,omitempty"`

	Generation int64  `json:"generation,omitempty"`
	Rows       *int64 `json:"rows,omitempty"` // nil when only the store told us
	Bytes      int64  `json:"bytes,omitempty"`
	Chunks     int    `json:"chunks,omitempty"`
	Added      int64  `json:"added,omitempty"`
	Duplicates int64  `json:"duplicates,omitempty"`
	Rejected   int64  `json:"rejected,omitempty"`
	TookMS     int64  `json:"took_ms,omitempty"`

	// Of a conversion: its sequence number, and how far the dataset is.
	Seq          int64  `json:"seq,omitempty"`
	BatchesDone  *int   `json:"batches_done,omitempty"`
	BatchesTotal *int   `json:"batches_total,omitempty"`
	BytesDone    *int64 `json:"bytes_done,omitempty"`
	BytesTotal   *int64 `json:"bytes_total,omitempty"`
}

// EventVersion is the version of the event format that this code writes.
const EventVersion = 1

// NewEvent is an event of the given type about a batch or a layer's part of it.
func NewEvent(t EventType, b BatchID, at time.Time) Event {
	e := Event{Version: EventVersion, Type: t, Dataset: b.Dataset, Batch: b.Batch, At: at.UTC()}
	if b.Annotator != "" {
		e.Annotator = &b.Annotator
	}
	return e
}

// ID is the batch that the event is about.
func (e Event) ID() BatchID {
	b := BatchID{Dataset: e.Dataset, Batch: e.Batch}
	if e.Annotator != nil {
		b.Annotator = *e.Annotator
	}
	return b
}

// MsgID is the id under which two reports of one happening collapse into one
// message; empty where each report stands alone.
func (e Event) MsgID() string {
	switch e.Type {
	case RowsIngested:
		return "put:" + e.Key + "@" + e.ETag
	case RunCompleted:
		return fmt.Sprintf("run:%s/%s@%s", e.ID(), e.Run, e.State)
	case BatchMerged:
		return fmt.Sprintf("merge:%s@%s", e.ID(), e.Commit)
	case AnnotationUpdated:
		if e.Commit != "" {
			return fmt.Sprintf("annotation:%s@%s", e.ID(), e.Commit)
		}
		return "put:" + e.Key + "@" + e.ETag
	case IndexRefreshed:
		return fmt.Sprintf("index:%s@%s", e.ID(), e.Commit)
	case ConversionProgress:
		return fmt.Sprintf("conv:%s@%d", e.ID(), e.Seq)
	case ObjectsDeleted:
		return "del:" + e.Key + "@" + e.Sequencer
	}
	return ""
}

// ParseEvent reads an event and refuses one that names no legal batch.
func ParseEvent(b []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(b, &e); err != nil {
		return Event{}, fmt.Errorf("parse event: %w", err)
	}
	if e.Version != EventVersion {
		return Event{}, fmt.Errorf("parse event: version %d, this build knows %d", e.Version, EventVersion)
	}
	if e.Type == "" {
		return Event{}, fmt.Errorf("parse event: no type")
	}
	return e, e.ID().Check()
}
