package integration_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/objstore"
	"github.com/siltstone-data/siltstone/objstore/mem"
	viewerapi "github.com/siltstone-data/siltstone/viewer-api"
)

// nginxConf is what a careful operator writes, with the compression that spoils
// event streams on, and the buffering that holds them back left as it is.
const nginxConf = `
daemon off;
master_process off;
pid %[1]s/pid;
error_log %[1]s/error.log;
events { worker_connections 256; }
http {
  access_log off;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  gzip on; gzip_types *; gzip_proxied any; gzip_min_length 1;
  server {
    listen %[2]s;
    location /silt/ {
      proxy_pass http://%[3]s;
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Proto https;
    }
  }
}
`

// behindNginx serves a viewer and gives the address of an nginx in front of it.
func behindNginx(t *testing.T, token string) (b *bus.Bus, store *mem.Store, front string) {
	t.Helper()
	binary, err := exec.LookPath("nginx")
	if err != nil {
		if binary, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			t.Skip("nginx is not installed (apt-get install nginx-light)")
		}
	}
	local, err := viewerapi.ParseProxies([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	v := serveViewer(t, viewerapi.Config{Token: token, BasePath: "/silt", TrustedProxies: local})

	free := listenAnywhere(t)
	front = free.Addr().String()
	free.Close() // nginx takes it over
	dir := t.TempDir()
	conf := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, nginxConf, dir, front, v.addr), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "-p", dir, "-c", conf, "-e", filepath.Join(dir, "error.log"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "error.log"))
			t.Logf("nginx: %s", log)
		}
	})
	deadline := time.Now().Add(20 * time.Second)
	for {
		c, err := net.Dial("tcp", front)
		if err == nil {
			c.Close()
			return v.bus, v.store, "http://" + front
		}
		if time.Now().After(deadline) {
			t.Fatal("nginx does not come up: ", err)
		}
	}
}

func listenAnywhere(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// nginxGet asks nginx and gives the whole answer.
func nginxGet(t *testing.T, url string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func TestEventsComeThroughNginxOneByOne(t *testing.T) {
	t.Parallel()
	b, _, front := behindNginx(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	listen := func(lastID string) (*bufio.Scanner, func()) {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, front+"/silt/api/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Last-Event-ID", lastID)
		res, err := http.DefaultClient.Do(r) // takes gzip, and undoes it
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatal(res.Status, res.Header)
		}
		return bufio.NewScanner(res.Body), func() { res.Body.Close() }
	}
	until := func(in *bufio.Scanner, want string) (line string) {
		t.Helper()
		for in.Scan() {
			if strings.HasPrefix(in.Text(), want) {
				return in.Text()
			}
		}
		t.Fatalf("no %q: %v", want, in.Err())
		return ""
	}
	tell := func(n int) {
		t.Helper()
		e := dataset.NewEvent(dataset.RowsIngested, dataset.BatchID{Dataset: "d", Batch: "b"}, time.Now())
		e.Key, e.ETag = fmt.Sprint("k", n), "v"
		if err := b.Publish(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	start, err := b.Position(ctx)
	if err != nil {
		t.Fatal(err)
	}
	in, stop := listen(start.String())
	// Nobody tells of the next one before this one has arrived: whatever holds
	// them back shows as a time-out here.
	for n := range 5 {
		tell(n)
		until(in, "event: rows_ingested")
	}
	stop()
	tell(5)
	in, stop = listen(bus.Position{Epoch: start.Epoch, Seq: start.Seq + 4}.String())
	defer stop()
	for n := 4; n < 6; n++ {
		if data := until(in, "data: {\"version\""); !strings.Contains(data, fmt.Sprintf(`"key":"k%d"`, n)) {
			t.Error(n, data)
		}
	}
}

func TestNamesAndDownloadsComeThroughNginx(t *testing.T) {
	t.Parallel()
	_, store, front := behindNginx(t, "s3cret")
	odd := []string{"日本語", "a+b", "50%", "x=1", "%2F", "?q#f", "a;b", `"`, "a b", "~:@!$&'()*,"}
	for _, name := range odd {
		key := dataset.BatchID{Dataset: name, Batch: name}.ChunkKey("a1b2c3", 0)
		if _, err := store.Put(t.Context(), key, []byte(`{"id":"../a/b%2F","n":1.0}`+"\n"), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Repeat(`x`, 1<<20)
	for i := range 8 {
		key := dataset.BatchID{Dataset: "large", Batch: "b"}.ChunkKey("a1b2c3", i)
		if _, err := store.Put(t.Context(), key, fmt.Appendf(nil, `{"id":"%d","text":"%s"}`+"\n", i, long), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	if res, _ := nginxGet(t, front+"/silt/api/datasets"); res.StatusCode != http.StatusUnauthorized {
		t.Error(res.Status)
	}
	res, err := http.Post(front+"/silt/api/session", "application/json", strings.NewReader(`{"token":"s3cret"}`))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if c := res.Cookies(); len(c) != 1 || !c[0].Secure || !c[0].HttpOnly || c[0].Path != "/silt/" {
		t.Fatal("nginx says that it speaks TLS:", res.Status, c)
	}
	cookie := res.Cookies()[0].Name + "=" + res.Cookies()[0].Value
	for _, name := range odd {
		at := front + "/silt/api/datasets/" + url.PathEscape(name)
		for _, path := range []string{"/data?batch=" + url.QueryEscape(name), "/rows/" + url.PathEscape("../a/b%2F"), "/data?format=ndjson"} {
			if res, body := nginxGet(t, at+path, "Cookie", cookie); res.StatusCode != 200 || !strings.Contains(body, `"n":1.0`) {
				t.Errorf("%q%s: %s %s", name, path, res.Status, body)
			}
		}
	}
	res, body := nginxGet(t, front+"/silt/api/datasets/large/data?format=ndjson", "Cookie", cookie)
	if res.StatusCode != 200 || len(body) < 8<<20 || !strings.HasSuffix(body, `{"type":"done","rows":8}`+"\n") {
		t.Error(res.Status, len(body))
	}
	if res, body := nginxGet(t, front+"/silt/"); res.StatusCode != 200 || body != "the page" {
		t.Error(res.Status, body)
	}
}
