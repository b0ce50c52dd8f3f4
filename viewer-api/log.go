package viewerapi

import "log/slog"

// The keys of log attributes.
const (
	keyAddr    = "addr"
	keyErr     = "err"
	keyMethod  = "method"
	keyPath    = "path"
	keyRequest = "request"
	keySeq     = "seq"
	keyStatus  = "status"
	keyTook    = "took"
	keyWait    = "wait"
)

func quietLogger(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}
