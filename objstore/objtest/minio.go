package objtest

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// MinIO is a running MinIO server: a real store that is not our own.
type MinIO struct {
	Endpoint             string
	AccessKey, SecretKey string
}

// MinIONotify tells a MinIO server where to publish notifications to.
type MinIONotify struct {
	Address        string // host:port of a NATS server
	User, Password string
	Subject        string // of a stream that exists already
}

// minIOTarget is how a bucket's configuration names the target of MinIONotify.
const minIOTarget = "arn:minio:sqs:us-east-1:SILT:nats"

// StartMinIO runs a MinIO server on an empty folder until the test ends. The
// binary comes from the environment variable MINIO or from PATH; a test without
// it is skipped, because building it takes minutes (`make minio`).
func StartMinIO(t testing.TB, notify *MinIONotify) MinIO {
	t.Helper()
	binary := os.Getenv("MINIO")
	if binary == "" {
		found, err := exec.LookPath("minio")
		if err != nil {
			t.Skip("no minio on PATH and MINIO is not set: make minio builds it")
		}
		binary = found
	}
	m := MinIO{AccessKey: "siltstone", SecretKey: "siltstone-secret"}
	addr, console := freePort(t), freePort(t)
	m.Endpoint = "http://" + addr
	dir := t.TempDir()
	cmd := exec.Command(binary, "server", "--quiet", "--address", addr, "--console-address", console, filepath.Join(dir, "data"))
	cmd.Env = append(os.Environ(), "HOME="+dir, "MINIO_ROOT_USER="+m.AccessKey, "MINIO_ROOT_PASSWORD="+m.SecretKey,
		"MINIO_BROWSER=off", "MINIO_UPDATE=off", "MINIO_CALLHOME_ENABLE=off")
	if notify != nil {
		// Synchronous events are published before the put is answered; a queue
		// folder keeps those that NATS did not take.
		cmd.Env = append(cmd.Env, "MINIO_API_SYNC_EVENTS=on",
			"MINIO_NOTIFY_NATS_ENABLE_SILT=on", "MINIO_NOTIFY_NATS_ADDRESS_SILT="+notify.Address,
			"MINIO_NOTIFY_NATS_USERNAME_SILT="+notify.User, "MINIO_NOTIFY_NATS_PASSWORD_SILT="+notify.Password,
			"MINIO_NOTIFY_NATS_SUBJECT_SILT="+notify.Subject, "MINIO_NOTIFY_NATS_JETSTREAM_SILT=on")
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() { _ = cmd.Wait(); close(gone) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		<-gone
		log.Close()
	})
	m.await(t, gone, log.Name())
	return m
}

// await waits until S3 itself answers: MinIO says that it is ready before.
func (m MinIO) await(t testing.TB, gone <-chan struct{}, log string) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		// An unsigned request is refused by S3, and answered with 503 until then.
		r, err := http.Get(m.Endpoint + "/")
		if err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusForbidden {
				return
			}
		}
		select {
		case <-tick.C:
		case <-gone:
			b, _ := os.ReadFile(log)
			t.Fatalf("minio ended at once: %s", b)
		case <-deadline:
			t.Fatal("minio does not answer")
		}
	}
}

// Notify makes a bucket send its notifications to the server's target. MinIO
// connects to its targets after it has begun to serve, and does not know them
// before.
func (m MinIO) Notify(t testing.TB, bucket string) {
	t.Helper()
	client := awss3.New(awss3.Options{
		BaseEndpoint: &m.Endpoint, Region: "us-east-1", UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(m.AccessKey, m.SecretKey, ""),
	})
	want := &awss3.PutBucketNotificationConfigurationInput{
		Bucket: &bucket,
		NotificationConfiguration: &types.NotificationConfiguration{QueueConfigurations: []types.QueueConfiguration{{
			QueueArn: aws.String(minIOTarget),
			Events:   []types.Event{"s3:ObjectCreated:*", "s3:ObjectRemoved:*"},
		}}},
	}
	deadline := time.After(time.Minute)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := client.PutBucketNotificationConfiguration(t.Context(), want)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal(err)
		}
	}
}

// freePort gives an address that nobody listens on at the moment.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprintf("127.0.0.1:%d", l.Addr().(*net.TCPAddr).Port)
}
