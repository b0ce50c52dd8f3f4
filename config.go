package siltstone

import (
	"errors"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Config says which store and which NATS server a Tool works with; each field
// has the meaning of the setting named behind it.
type Config struct {
	Bucket, Prefix       string // S3_BUCKET, S3_PREFIX
	Endpoint, Region     string // AWS_ENDPOINT_URL, AWS_REGION
	AccessKey, SecretKey string // AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY; empty: the standard AWS chain
	SessionToken         string // AWS_SESSION_TOKEN, with keys that are lent for a while
	NATSURL, NATSCreds   string // NATS_URL, NATS_CREDS; no URL: rows are stored and not announced
	LockdURL, LockdToken string // LOCKD_URL, LOCKD_TOKEN; no URL: leases are taken in the store itself

	WorkDir string // for spill files; the system's temporary folder when empty

	Logger     *slog.Logger          // slog.Default() when nil
	Registerer prometheus.Registerer // metrics are not registered when nil
}

// Lookup finds a setting by name, as os.LookupEnv does.
type Lookup func(name string) (string, bool)

// ReadConfig reads a Config from sources in order of precedence. Settings that
// say how to reach the store come together from the first source that names a
// bucket, and those of NATS from the first that names a URL: half of one place
// and half of another would send one store's keys to another's endpoint. A lockd
// that a source behind the bucket's names is not used: it keeps the leases of
// another store.
func ReadConfig(sources ...Lookup) Config {
	s3 := naming(sources, "S3_BUCKET")
	nats := naming(sources, "NATS_URL")
	lockd := naming(upTo(sources, "S3_BUCKET"), "LOCKD_URL")
	return Config{
		Bucket:       first(s3, "S3_BUCKET"),
		Prefix:       strings.Trim(first(s3, "S3_PREFIX"), "/"),
		Endpoint:     first(s3, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
		Region:       first(s3, "AWS_REGION", "AWS_DEFAULT_REGION"),
		AccessKey:    first(s3, "AWS_ACCESS_KEY_ID"),
		SecretKey:    first(s3, "AWS_SECRET_ACCESS_KEY"),
		SessionToken: first(s3, "AWS_SESSION_TOKEN"),
		NATSURL:      first(nats, "NATS_URL"),
		NATSCreds:    first(nats, "NATS_CREDS"),
		LockdURL:     first(lockd, "LOCKD_URL"),
		LockdToken:   first(lockd, "LOCKD_TOKEN"),
	}
}

// upTo gives the sources as far as the first that sets name, or all.
func upTo(sources []Lookup, name string) []Lookup {
	for i, s := range sources {
		if first(s, name) != "" {
			return sources[:i+1]
		}
	}
	return sources
}

// naming gives the first source that sets name.
func naming(sources []Lookup, name string) Lookup {
	for _, s := range sources {
		if first(s, name) != "" {
			return s
		}
	}
	return func(string) (string, bool) { return "", false }
}

func first(s Lookup, names ...string) string {
	for _, n := range names {
		if v, ok := s(n); ok && v != "" {
			return v
		}
	}
	return ""
}

// ErrNoStore reports a configuration without a bucket.
var ErrNoStore = errors.New("no store is configured: set S3_BUCKET and the AWS settings")
