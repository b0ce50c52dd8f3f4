package consumers

import "log/slog"

// The keys of this package's log lines.
const (
	keyErr        = "err"
	keyDataset    = "dataset"
	keyBatch      = "batch"
	keyAnnotator  = "annotator"
	keyKey        = "key"
	keyBlock      = "block"
	keyGeneration = "generation"
	keyFound      = "found"
)

func quietLogger(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}
