package viewerapi_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/siltstone-data/siltstone/objstore/mem"
	viewerapi "github.com/siltstone-data/siltstone/viewer-api"
)

// FuzzParameters asks with any path and parameters: the answer is rows or a
// problem document about the request, and never one about the server.
func FuzzParameters(f *testing.F) {
	for _, q := range []string{"", "cursor=MQBi", "cursor=%00", "limit=1&columns=a,b&clip=3", "columns=%5B%22a%22%5D", "columns=[", "sort=id:desc&batch=b",
		"format=ndjson&limit=1", "format=csv", "limit=-0", "limit=99999999999999999999", "batch=&batch=_", "a=%zz", "clip=1&clip=2", ";", "%ff=1", "columns=,,", "sort=", "format="} {
		f.Add("d", q)
	}
	f.Add("%2e%2e", "")
	f.Add("d%00", "")
	f.Add("d/../e", "cursor=x")
	store := mem.New()
	put(f, store, "d", "b", 0, `{"id":"1","a":1,"b":"text"}`, `{"id":"2"}`)
	v := serve(f, nil, store, viewerapi.Config{})
	addr := strings.TrimPrefix(v.url, "http://")
	f.Fuzz(func(t *testing.T, name, query string) {
		if strings.ContainsAny(name+query, " \r\n\t#\x00") {
			return // not one request line
		}
		c, err := net.DialTimeout("tcp", addr, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.WriteString(c, "GET /api/datasets/"+name+"/data?"+query+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%q %q: %v", name, query, err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case res.StatusCode >= 500:
			t.Fatalf("%q %q: %d %s", name, query, res.StatusCode, body)
		case res.StatusCode >= 400:
			if !json.Valid(body) || res.Header.Get("Content-Type") != "application/problem+json" {
				t.Fatalf("%q %q: %d %s", name, query, res.StatusCode, body)
			}
		case strings.HasPrefix(res.Header.Get("Content-Type"), "application/json"):
			if !json.Valid(body) {
				t.Fatalf("%q %q: %s", name, query, body)
			}
		case strings.HasPrefix(res.Header.Get("Content-Type"), "application/x-ndjson"):
			if !bytes.Contains(body, []byte(`{"type":"done"`)) {
				t.Fatalf("%q %q: %s", name, query, body)
			}
		}
	})
}

// FuzzLastEventID comes back with anything: it is a stream that says reset, or
// goes on.
func FuzzLastEventID(f *testing.F) {
	for _, id := range []string{"", "0:0", "1:1", "x", "18446744073709551615:18446744073709551615", "1:", ":1", "-1:2", "01:1", "1:1:1", "１:1"} {
		f.Add(id)
	}
	b := serveNATS(f).join()
	v := serve(f, b, mem.New(), viewerapi.Config{})
	addr := strings.TrimPrefix(v.url, "http://")
	f.Fuzz(func(t *testing.T, id string) {
		if strings.ContainsAny(id, "\r\n\x00") {
			return
		}
		c, err := net.DialTimeout("tcp", addr, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.WriteString(c, "GET /api/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: "+id+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode == http.StatusBadRequest {
			return // no legal header
		}
		in := bufio.NewScanner(res.Body)
		for in.Scan() && !strings.HasPrefix(in.Text(), "event: ") {
		}
		if res.StatusCode != 200 || in.Text() != "event: connected" {
			t.Fatalf("%q: %d %s", id, res.StatusCode, in.Text())
		}
	})
}
