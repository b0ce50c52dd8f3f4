package viewerapi

import (
	"slices"
	"time"

	"github.com/gofiber/fiber/v3"
)

// conversionAnswer is how far a conversion is.
type conversionAnswer struct {
	State        string           `json:"state"` // running, done or failed
	BatchesDone  int              `json:"batches_done"`
	BatchesTotal int              `json:"batches_total"`
	BytesDone    int64            `json:"bytes_done"` // of parquet
	BytesTotal   int64            `json:"bytes_total"`
	Running      []atWorkAnswer   `json:"running"`
	Errors       []batchErrAnswer `json:"errors"`
	StartedAt    *time.Time       `json:"started_at"`
	UpdatedAt    *time.Time       `json:"updated_at"`
}

// atWorkAnswer is a batch that is being converted: B, or B/A for a layer's part.
type atWorkAnswer struct {
	Batch string     `json:"batch"`
	By    string     `json:"by"`
	Phase string     `json:"phase"`
	Done  int64      `json:"done"`
	Total int64      `json:"total"`
	At    *time.Time `json:"at"`
}

type batchErrAnswer struct {
	Batch string `json:"batch"`
	Error string `json:"error"`
}

// maxConversionList bounds the lists of an answer.
const maxConversionList = 1000

// conversion answers GET /api/datasets/D/conversion.
func (s *Server) conversion(c fiber.Ctx) error {
	name, err := datasetName(c)
	if err != nil {
		return err
	}
	if _, err := values(c); err != nil {
		return err
	}
	ctx, leave, err := s.within(c)
	if err != nil {
		return err
	}
	defer leave()
	st, err := s.engine.Conversion(ctx, name)
	if err != nil {
		return err
	}
	if st.StartedAt.IsZero() {
		return answer(c, map[string]string{"state": st.State})
	}
	out := conversionAnswer{State: st.State, BatchesDone: st.BatchesDone, BatchesTotal: st.BatchesTotal, BytesDone: st.BytesDone, BytesTotal: st.BytesTotal,
		Running: []atWorkAnswer{}, Errors: []batchErrAnswer{}, StartedAt: moment(st.StartedAt), UpdatedAt: moment(st.UpdatedAt)}
	for _, b := range sortedKeys(st.Running) {
		w := st.Running[b]
		out.Running = append(out.Running, atWorkAnswer{b, w.By, w.Phase, w.Done, w.Total, moment(w.At)})
	}
	for _, b := range sortedKeys(st.Errors) {
		out.Errors = append(out.Errors, batchErrAnswer{b, st.Errors[b]})
	}
	return answer(c, out)
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys[:min(len(keys), maxConversionList)]
}
