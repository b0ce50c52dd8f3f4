package s3_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/s3"
)

// everyWay asks a store in each way that a command begins with.
func everyWay(ctx context.Context, s objstore.Store) map[string]error {
	errs := map[string]error{}
	for _, err := range s.Dirs(ctx, "") {
		errs["dirs"] = err
	}
	for _, err := range s.List(ctx, "d/", "") {
		errs["list"] = err
	}
	_, _, errs["get"] = objstore.ReadAll(ctx, s, "d/b/manifest.yaml")
	_, errs["put"] = s.Put(ctx, "d/b/x", []byte("x"), objstore.IfAbsent())
	_, errs["upload"] = s.Upload(ctx, "d/b/x", strings.NewReader("x"), 1, objstore.Condition{})
	return errs
}

func TestAStoreThatCannotBeUsedSaysWhy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := "http://" + l.Addr().String()
	l.Close()
	quick := s3.Retry{Attempts: 2, Base: time.Millisecond}
	good := s3.Config{Bucket: "bucket", Endpoint: server.Endpoint(), Region: "us-east-1", AccessKey: accessKey, SecretKey: secretKey, Retry: quick}
	for name, c := range map[string]struct {
		spoil func(*s3.Config)
		want  error
		says  string
	}{
		"an access key that nobody has": {func(c *s3.Config) { c.AccessKey = "nobody" }, s3.ErrDenied, "access key"},
		"another's secret":              {func(c *s3.Config) { c.SecretKey = "wrong" }, s3.ErrDenied, "signature"},
		"no such bucket":                {func(c *s3.Config) { c.Bucket = "nope" }, s3.ErrNoBucket, "NoSuchBucket"},
		"another region":                {func(c *s3.Config) { c.Region = "eu-west-1" }, s3.ErrRegion, `"us-east-1"`},
		"nobody listens":                {func(c *s3.Config) { c.Endpoint = dead }, s3.ErrUnreachable, "2 attempts: dial tcp"},
		"no such host":                  {func(c *s3.Config) { c.Endpoint = "http://nowhere.invalid" }, s3.ErrUnreachable, "nowhere.invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			c.spoil(&cfg)
			s, err := s3.Open(t.Context(), cfg, slog.New(slog.DiscardHandler), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for way, err := range everyWay(t.Context(), s) {
				if !errors.Is(err, c.want) || errors.Is(err, objstore.ErrNotFound) || errors.Is(err, objstore.ErrUnknown) {
					t.Errorf("%s: %v, want %v", way, err, c.want)
					continue
				}
				if text := err.Error(); !strings.Contains(text, c.says) || strings.Contains(text, "RequestID") || strings.Contains(text, "StatusCode") {
					t.Errorf("%s: %v", way, err)
				}
			}
		})
	}
}

func TestStoppingIsNotTheStoresFault(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	s, _, _ := open(t, s3.Config{}, func(string, int) fault {
		return func(_ *trouble, r *http.Request) (*http.Response, error) {
			stop()
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
	})
	for _, err := range s.Dirs(ctx, "") {
		if !errors.Is(err, context.Canceled) || errors.Is(err, s3.ErrUnreachable) {
			t.Error(err)
		}
	}
}

// silence is a network in which nothing ever answers.
type silence struct{}

func (silence) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// refusal is one in which nobody listens, until a server is up.
type refusal struct{ up func() bool }

func (f refusal) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.up() {
		return response(r, http.StatusNotFound, "NoSuchKey"), nil
	}
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
}

func TestAStoreThatHasNeverAnsweredIsGivenUpSoonWhereThatIsWanted(t *testing.T) {
	for name, transport := range map[string]http.RoundTripper{
		"silent":  silence{},
		"refused": refusal{func() bool { return false }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := s3.Open(t.Context(), s3.Config{
					Bucket: "b", Endpoint: "http://store", AccessKey: "a", SecretKey: "s",
					Transport: transport, Retry: s3.Retry{Connect: 3 * time.Second, Attempts: 100},
				}, slog.New(slog.DiscardHandler), nil)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				_, _, err = objstore.ReadAll(t.Context(), s, "k")
				if took := time.Since(began); !errors.Is(err, s3.ErrUnreachable) || took < 3*time.Second || took > 9*time.Second {
					t.Errorf("after %s: %v", took, err)
				}
			})
		})
	}
}

func TestAStoreThatHasAnsweredIsWaitedForWhenItRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		up := func() bool { d := time.Since(began); return d == 0 || d > 12*time.Second }
		s, err := s3.Open(t.Context(), s3.Config{
			Bucket: "b", Endpoint: "http://store", AccessKey: "a", SecretKey: "s",
			Transport: refusal{up}, Retry: s3.Retry{Connect: 3 * time.Second, Attempts: 100},
		}, slog.New(slog.DiscardHandler), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, _, err := objstore.ReadAll(t.Context(), s, "k"); !errors.Is(err, objstore.ErrNotFound) {
				t.Fatalf("after %s: %v", time.Since(began), err)
			}
			time.Sleep(time.Second) // of the bubble: the store has gone down
		}
	})
}

func TestAnEndpointIsAURL(t *testing.T) {
	for _, endpoint := range []string{"127.0.0.1:9000", "localhost:9000", "ftp://store", "http://", "/tmp"} {
		_, err := s3.Open(t.Context(), s3.Config{Bucket: "b", Endpoint: endpoint}, slog.New(slog.DiscardHandler), nil)
		if err == nil || !strings.Contains(err.Error(), endpoint) {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}
