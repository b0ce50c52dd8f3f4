package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	smithylog "github.com/aws/smithy-go/logging"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/siltstone-data/siltstone/objstore"
)

// Config holds the settings of a Store. Bucket is required; everything else has
// a default, or comes from the standard AWS environment and files.
type Config struct {
	Bucket   string
	Endpoint string // URL of a store other than Amazon's
	Region   string // us-east-1 where nothing else names one

	AccessKey    string // the standard AWS credential chain when empty
	SecretKey    string
	SessionToken string

	Page  int // objects in one page of a list; 1000 when 0, which is also the most
	Retry Retry

	// Transport sends the requests; a pool of connections of its own when nil.
	Transport http.RoundTripper
}

// Retry bounds how long a call tries. The zero value has defaults that suit a
// service.
type Retry struct {
	Attempts int           // attempts without progress, throttled ones not counted; 8 when 0
	Throttle time.Duration // how long a call stands being throttled; 3 min when 0
	Base     time.Duration // first pause, doubled each time, with full jitter; 50 ms when 0
	Max      time.Duration // longest pause; 5 s when 0
	Stall    time.Duration // an attempt that moves no byte for so long is given up; 60 s when 0
	// Connect is how long a store that has never answered is tried: it is
	// probably not there. No limit of its own when 0, as suits who must ride
	// out a restart.
	Connect time.Duration
}

// Multipart uploads: from singlePut on an object is sent in parts, of at least
// minPart bytes, at most maxParts of them, partsAtOnce at a time.
const (
	singlePut   = 16 << 20
	minPart     = 8 << 20
	maxParts    = 10_000
	partsAtOnce = 4
)

// sizes are these limits as a store uses them.
type sizes struct{ single, part int64 }

func (c *Config) defaults() {
	if c.Page <= 0 || c.Page > 1000 {
		c.Page = 1000
	}
	c.Retry.Attempts = cmp.Or(c.Retry.Attempts, 8)
	c.Retry.Throttle = cmp.Or(c.Retry.Throttle, 3*time.Minute)
	c.Retry.Base = cmp.Or(c.Retry.Base, 50*time.Millisecond)
	c.Retry.Max = cmp.Or(c.Retry.Max, 5*time.Second)
	c.Retry.Stall = cmp.Or(c.Retry.Stall, time.Minute)
}

// Validate names the field that makes a configuration unusable.
func (c Config) Validate() error {
	switch {
	case c.Bucket == "":
		return errors.New("s3: Bucket is empty")
	case (c.AccessKey == "") != (c.SecretKey == ""):
		return errors.New("s3: AccessKey and SecretKey belong together, one of them is empty")
	}
	if u, err := url.Parse(c.Endpoint); c.Endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("s3: Endpoint %q is no URL of a store, such as http://127.0.0.1:9000", c.Endpoint)
	}
	return nil
}

// Store is a bucket. It is safe for use by many goroutines, which share its
// connections and its pace.
type Store struct {
	cfg     Config
	client  *awss3.Client
	http    *http.Client
	log     *slog.Logger
	metrics *objstore.Metrics
	pace    *pace
	sizes   sizes

	answered atomic.Bool // by anything, ever
}

var _ objstore.Store = (*Store)(nil)

// Open prepares a Store; it sends no request to the bucket. Close it to give
// back its connections. reg may be nil.
func Open(ctx context.Context, cfg Config, log *slog.Logger, reg prometheus.Registerer) (*Store, error) {
	cfg.defaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	opts := []func(*awsconfig.LoadOptions) error{awsconfig.WithLogger(smithylog.Nop{})}
	if cfg.AccessKey != "" {
		opts = append(opts, awsconfig.WithCredentialsProvider(
			credentials.NewStaticCredentialsProvider(cfg.AccessKey, cfg.SecretKey, cfg.SessionToken)))
	}
	aw, err := awsconfig.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("load AWS settings: %w", err)
	}
	s := &Store{cfg: cfg, log: log, metrics: objstore.NewMetrics(reg), pace: newPace(), sizes: sizes{singlePut, minPart}}
	if s.cfg.Transport == nil {
		s.cfg.Transport = newTransport()
	}
	s.http = &http.Client{
		Transport: s.cfg.Transport,
		// A redirect means another region or endpoint; its signature would be wrong there.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	s.client = awss3.NewFromConfig(aw, func(o *awss3.Options) {
		o.HTTPClient = s.http
		o.Region = cmp.Or(cfg.Region, o.Region, "us-east-1")
		if cfg.Endpoint != "" {
			o.BaseEndpoint = aws.String(cfg.Endpoint)
			o.UsePathStyle = true // a name below the endpoint needs DNS that few stores have
		}
		o.Retryer = aws.NopRetryer{} // attempts are made, and judged, by Store.retry
		// The SDK's default adds checksum trailers that many stores refuse.
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	})
	return s, nil
}

func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns = 0 // no limit
	t.MaxIdleConnsPerHost = 128
	t.IdleConnTimeout = 30 * time.Second // below what servers grant, so that they seldom close first
	t.DisableCompression = true          // bytes are stored as they are, whatever a server thinks of them
	return t
}

// Close gives back idle connections. A server in the same process that waits for
// them to end stops at once then. The store remains usable.
func (s *Store) Close() { s.http.CloseIdleConnections() }
