package consumers

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// A record is what a notification says of one object.
type record struct {
	Event string    `json:"eventName"`
	Time  time.Time `json:"-"`
	At    string    `json:"eventTime"`
	S3    struct {
		Bucket struct {
			Name string `json:"name"`
		} `json:"bucket"`
		Object struct {
			Key       string `json:"key"`
			Size      int64  `json:"size"`
			ETag      string `json:"eTag"`
			Sequencer string `json:"sequencer"`
		} `json:"object"`
	} `json:"s3"`
}

// envelope is what stores and their relays put around records.
type envelope struct {
	Records []json.RawMessage
	Event   string // s3:TestEvent
	Type    string // of an SNS message
	Message *string
}

// note is a notification taken apart.
type note struct {
	records []record
	unknown int    // records that could not be read
	test    bool   // a test of the connection, or a relay's own message
	none    string // why there is no record
}

// parseNote reads the envelope that AWS and MinIO send, alone or inside an SNS
// message. One record that cannot be read does not take the others with it.
func parseNote(payload []byte) note { return parseDepth(payload, 0) }

func parseDepth(payload []byte, depth int) note {
	var e envelope
	if err := json.Unmarshal(payload, &e); err != nil {
		return note{none: fmt.Sprintf("no JSON object: %v", err)}
	}
	switch {
	case e.Event == "s3:TestEvent", strings.HasSuffix(e.Type, "Confirmation"):
		return note{test: true}
	case e.Type == "Notification" && e.Message != nil && depth < 3:
		return parseDepth([]byte(*e.Message), depth+1)
	case len(e.Records) == 0:
		return note{none: "no records"}
	}
	var n note
	for _, raw := range e.Records {
		var r record
		if err := json.Unmarshal(raw, &r); err != nil || r.Event == "" || r.S3.Object.Key == "" {
			n.unknown++
			continue
		}
		r.Event = strings.TrimPrefix(r.Event, "s3:")
		r.S3.Object.ETag = strings.Trim(r.S3.Object.ETag, `"`)
		if at, err := time.Parse(time.RFC3339, r.At); err == nil {
			r.Time = at.UTC()
		}
		n.records = append(n.records, r)
	}
	return n
}

func (r record) created() bool { return strings.HasPrefix(r.Event, "ObjectCreated:") }

func (r record) removed() bool {
	return strings.HasPrefix(r.Event, "ObjectRemoved:") || strings.HasPrefix(r.Event, "LifecycleExpiration:")
}

// spellings gives the keys that a notification's key can mean, the likelier
// first. AWS and MinIO form-encode keys, some stores do not, and none says
// which. A key with a byte that form-encoding never leaves as it is was not
// encoded; any other is decoded exactly once.
func spellings(raw string) []string {
	if !formEncoded(raw) {
		return []string{raw}
	}
	key, err := url.QueryUnescape(raw)
	if err != nil || key == raw {
		return []string{raw}
	}
	return []string{key, raw}
}

func formEncoded(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		// "/" is left by AWS and encoded by MinIO; what follows "~" is left by
		// encoders of other languages.
		case strings.IndexByte("-_.*+/%~!'()", c) >= 0:
		default:
			return false
		}
	}
	return true
}
