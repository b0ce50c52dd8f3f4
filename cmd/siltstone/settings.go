package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/joho/godotenv"

	"github.com/siltstone-data/siltstone"
)

// settings are what can be set from outside; example.env lists them.
type settings struct {
	siltstone.Config
	mergeQuiet, mergeMaxAge time.Duration
	mergeMinBytes           int64
	mergeGzipLevel          int
	historyMaxAge           time.Duration
	maxJSONLBytes           int64
	convertMax              int64
	viewerToken             string
	viewerLogTimings        bool
	serveToken              string // that lockd asks for when it is served here
	cacheDir                string // empty: none
	cacheBytes              int64
	duckMemory              int64
	logLevel                slog.Level
	logFormat               string
}

// source is one place where settings are written, by name.
type source struct {
	name string
	get  siltstone.Lookup
}

// sources gives the places in order of precedence: the environment, .env in the
// working directory, and what `siltstone up` wrote to DIR/env.
func sources(dir string) ([]source, error) {
	out := []source{{"environment", os.LookupEnv}}
	for _, path := range []string{".env", filepath.Join(dir, "env")} {
		m, err := godotenv.Read(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		out = append(out, source{path, func(k string) (string, bool) { v, ok := m[k]; return v, ok }})
	}
	return out, nil
}

// services log what they do; other commands only what went wrong.
var services = map[string]bool{"up": true, "serve": true}

// loadSettings reads all settings and names the first that is wrong.
func loadSettings(from []source, command string) (settings, error) {
	var lookups []siltstone.Lookup
	for _, f := range from {
		lookups = append(lookups, f.get)
	}
	s := settings{Config: siltstone.ReadConfig(lookups...)}
	r := reader{from: from}
	s.mergeQuiet = r.duration("MERGE_QUIET", 2*time.Second)
	s.mergeMaxAge = r.duration("MERGE_MAX_AGE", time.Minute)
	s.mergeMinBytes = r.bytes("MERGE_MIN_BYTES", 64e6)
	s.mergeGzipLevel = int(r.oneOf("MERGE_GZIP_LEVEL", "1", "1", "2", "3", "4", "5", "6", "7", "8", "9")[0] - '0')
	s.historyMaxAge = r.duration("HISTORY_MAX_AGE", 0)
	s.maxJSONLBytes = r.bytes("JSONL_MERGE_MAX_DATASET_BYTES", 50e9)
	s.convertMax = r.bytes("CONVERT_MAX_DATASET_BYTES", 10e9)
	s.viewerToken, _ = r.find("VIEWER_TOKEN")
	s.viewerLogTimings = r.oneOf("VIEWER_LOG_TIMINGS", "false", "false", "true") == "true"
	s.serveToken, _ = r.find("LOCKD_TOKEN")
	s.cacheDir = r.folder("DUCKDB_CACHE_DIR")
	s.cacheBytes = r.bytes("DUCKDB_CACHE_BYTES", 10e9)
	s.duckMemory = r.bytes("DUCKDB_MEMORY_LIMIT", 256e6)
	s.logFormat = r.oneOf("LOG_FORMAT", "text", "text", "json")
	quiet := "warn"
	if services[command] {
		quiet = "info"
	}
	level := r.oneOf("LOG_LEVEL", quiet, "debug", "info", "warn", "error")
	if r.err == nil {
		r.err = s.logLevel.UnmarshalText([]byte(level))
	}
	return s, r.err
}

// reader reads settings from sources and keeps the first error.
type reader struct {
	from []source
	err  error
}

func (r *reader) find(key string) (value, where string) {
	for _, s := range r.from {
		if v, ok := s.get(key); ok && v != "" {
			return v, s.name
		}
	}
	return "", ""
}

func (r *reader) fail(key, value, where, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s=%q (%s): want %s", key, value, where, want)
	}
}

func (r *reader) duration(key string, def time.Duration) time.Duration {
	v, where := r.find(key)
	if v == "" {
		return def
	}
	d, err := parseDuration(v)
	if err != nil || d < 0 {
		r.fail(key, v, where, "a time with its unit, such as 90s or 7d")
	}
	return d
}

// parseDuration reads what time.ParseDuration does, and days before it: 7d, 1d12h.
func parseDuration(v string) (time.Duration, error) {
	days, rest, found := strings.Cut(v, "d")
	if !found {
		return time.ParseDuration(v)
	}
	n, err := strconv.ParseFloat(days, 64)
	if err != nil || !(n >= 0 && n <= 100*365) { // nor NaN
		return 0, fmt.Errorf("%q is no number of days", days)
	}
	d := time.Duration(n * float64(24*time.Hour))
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	return d + more, err
}

func (r *reader) bytes(key string, def int64) int64 {
	v, where := r.find(key)
	if v == "" {
		return def
	}
	n, err := humanize.ParseBytes(v)
	if err != nil || n > 1<<62 {
		r.fail(key, v, where, "a size, such as 64MB")
	}
	return int64(n)
}

// folder gives an absolute path, or "".
func (r *reader) folder(key string) string {
	v, where := r.find(key)
	if v == "" {
		return ""
	}
	abs, err := absolute(v)
	if err != nil {
		r.fail(key, v, where, "a folder")
	}
	return abs
}

func (r *reader) oneOf(key, def string, allowed ...string) string {
	v, where := r.find(key)
	if v == "" {
		return def
	}
	for _, a := range allowed {
		if strings.EqualFold(v, a) {
			return a
		}
	}
	r.fail(key, v, where, "one of "+strings.Join(allowed, ", "))
	return def
}
