package producers

import "github.com/siltstone-data/siltstone/dataset"

// Result says what a run has stored.
type Result struct {
	Dataset  string      `json:"dataset"`
	Batch    string      `json:"batch"`
	Run      dataset.Run `json:"run"`
	Rows     int64       `json:"rows"`
	Rejected int64       `json:"rejected"` // values that Write refused
	Chunks   int         `json:"chunks"`
	Bytes    int64       `json:"bytes"` // of the chunks
}

// Stored is what the run has stored so far.
func (w *Writer) Stored() Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stored()
}

func (w *Writer) stored() Result {
	return Result{
		Dataset: w.batch.Dataset, Batch: w.batch.Batch, Run: w.run,
		Rows: w.manifest.Rows, Rejected: w.rejected, Chunks: w.manifest.Chunks, Bytes: w.manifest.Bytes,
	}
}
