package embedded

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"
)

// What happened to an object, in Amazon's words.
const (
	createdPut      = "ObjectCreated:Put"
	createdCopy     = "ObjectCreated:Copy"
	createdComplete = "ObjectCreated:CompleteMultipartUpload"
	removedDelete   = "ObjectRemoved:Delete"
)

// change is what is told of.
type change struct {
	event       string
	bucket, key string
	etag        string
	size        int64
}

// notification is Amazon's envelope, with the fields that say something here.
type notification struct {
	Records []record `json:"Records"`
}

type record struct {
	EventVersion string `json:"eventVersion"`
	EventSource  string `json:"eventSource"`
	AWSRegion    string `json:"awsRegion"`
	EventTime    string `json:"eventTime"`
	EventName    string `json:"eventName"`
	S3           struct {
		SchemaVersion   string `json:"s3SchemaVersion"`
		ConfigurationID string `json:"configurationId"`
		Bucket          struct {
			Name string `json:"name"`
			ARN  string `json:"arn"`
		} `json:"bucket"`
		Object struct {
			Key       string `json:"key"` // query-encoded, slashes kept
			Size      int64  `json:"size,omitempty"`
			ETag      string `json:"eTag,omitempty"`
			Sequencer string `json:"sequencer"`
		} `json:"object"`
	} `json:"s3"`
}

// payload spells a change as Amazon does.
func payload(c change, region, sequencer string, at time.Time) ([]byte, error) {
	r := record{
		EventVersion: "2.1", EventSource: "aws:s3", AWSRegion: region,
		EventTime: at.UTC().Format("2006-01-02T15:04:05.000Z"), EventName: c.event,
	}
	r.S3.SchemaVersion, r.S3.ConfigurationID = "1.0", "siltstone"
	r.S3.Bucket.Name, r.S3.Bucket.ARN = c.bucket, "arn:aws:s3:::"+c.bucket
	r.S3.Object.Key = strings.ReplaceAll(url.QueryEscape(c.key), "%2F", "/")
	r.S3.Object.Size, r.S3.Object.ETag, r.S3.Object.Sequencer = c.size, strings.Trim(c.etag, `"`), sequencer
	return json.Marshal(notification{Records: []record{r}})
}

// sequence orders the changes to a key: later ones have greater strings, also
// after a restart, as long as the clock was not set back meanwhile.
type sequence struct {
	mu   sync.Mutex
	last int64
}

func (s *sequence) next(now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last+1, now.UnixNano())
	return fmt.Sprintf("%016X", s.last)
}
