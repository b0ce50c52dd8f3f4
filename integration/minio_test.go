package integration_test

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/objtest"
	"github.com/siltstone-data/siltstone/objstore/s3"
)

// minioStore is a new bucket on a MinIO server.
func minioStore(t *testing.T, m objtest.MinIO, bucket string) *s3.Store {
	t.Helper()
	s, err := s3.Open(t.Context(), s3.Config{
		Bucket: bucket, Endpoint: m.Endpoint, AccessKey: m.AccessKey, SecretKey: m.SecretKey,
	}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if err := s.EnsureBucket(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestMinIOConforms holds a store that is not our own to the same suite.
func TestMinIOConforms(t *testing.T) {
	m := objtest.StartMinIO(t, nil)
	store := minioStore(t, m, "conformance")
	if err := objstore.Probe(t.Context(), store, "_probe/"); err != nil {
		t.Fatal(err)
	}
	var lanes atomic.Int64
	objtest.Conform(t, func(t *testing.T) objstore.Store {
		return objstore.WithPrefix(store, fmt.Sprintf("lane%d", lanes.Add(1)))
	})
}
