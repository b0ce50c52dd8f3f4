package viewerapi

import (
	"time"

	"github.com/gofiber/fiber/v3"

	"github.com/siltstone-data/siltstone/query"
)

// datasetAnswer is a dataset as the API tells of it.
type datasetAnswer struct {
	Name       string     `json:"name"`
	Batches    int        `json:"batches"`
	Rows       int64      `json:"rows"`      // merged
	Bytes      int64      `json:"bytes"`     // of blocks
	LiveRows   *int64     `json:"live_rows"` // null: unknown
	LiveChunks int64      `json:"live_chunks"`
	Annotators []string   `json:"annotators"`
	UpdatedAt  *time.Time `json:"updated_at"` // null: nothing is merged
}

type batchAnswer struct {
	Name       string     `json:"name"`
	Rows       int64      `json:"rows"`
	Bytes      int64      `json:"bytes"`
	Generation int64      `json:"generation"`
	LiveRows   *int64     `json:"live_rows"`
	LiveChunks int64      `json:"live_chunks"`
	UpdatedAt  *time.Time `json:"updated_at"`
}

// layerAnswer is a layer as the API tells of it.
type layerAnswer struct {
	Annotator  string     `json:"annotator"`
	Batches    int        `json:"batches"`
	Rows       int64      `json:"rows"`  // annotated, and merged
	Share      float64    `json:"share"` // of the merged rows, 0 to 1
	Bytes      int64      `json:"bytes"`
	LiveRows   *int64     `json:"live_rows"`
	LiveChunks int64      `json:"live_chunks"`
	UpdatedAt  *time.Time `json:"updated_at"`
	// Parts are those of the batches that have annotations.
	Parts []layerPartAnswer `json:"parts"`
}

type layerPartAnswer struct {
	batchAnswer
	Share float64 `json:"share"`
}

func newDatasetAnswer(d query.DatasetInfo) datasetAnswer {
	return datasetAnswer{d.Name, d.Batches, d.Rows, d.Bytes, known(d.LiveRows), d.LiveChunks, list(d.Annotators), moment(d.UpdatedAt)}
}

func newBatchAnswer(b query.BatchInfo) batchAnswer {
	return batchAnswer{b.Name, b.Rows, b.Bytes, b.Generation, known(b.LiveRows), b.LiveChunks, moment(b.UpdatedAt)}
}

func newLayerAnswer(l query.LayerInfo) layerAnswer {
	out := layerAnswer{l.Annotator, l.Batches, l.Rows, l.Share, l.Bytes, known(l.LiveRows), l.LiveChunks, moment(l.UpdatedAt),
		make([]layerPartAnswer, len(l.Parts))}
	for i, p := range l.Parts {
		out.Parts[i] = layerPartAnswer{newBatchAnswer(p.BatchInfo), p.Share}
	}
	return out
}

// datasets answers GET /api/datasets.
func (s *Server) datasets(c fiber.Ctx) error {
	if _, err := values(c); err != nil {
		return err
	}
	ctx, leave, err := s.within(c)
	if err != nil {
		return err
	}
	defer leave()
	all, err := s.engine.Datasets(ctx)
	if err != nil {
		return err
	}
	out := make([]datasetAnswer, len(all))
	for i, d := range all {
		out[i] = newDatasetAnswer(d)
	}
	return answer(c, map[string]any{"datasets": out})
}

// dataset answers GET /api/datasets/D.
func (s *Server) dataset(c fiber.Ctx) error {
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
	info, parts, err := s.engine.Dataset(ctx, name)
	if err != nil {
		return err
	}
	out := struct {
		datasetAnswer
		Batches []batchAnswer `json:"batches"` // in place of their number
		Layers  []layerAnswer `json:"layers"`
	}{newDatasetAnswer(info), make([]batchAnswer, len(parts)), make([]layerAnswer, len(info.Layers))}
	for i, l := range info.Layers {
		out.Layers[i] = newLayerAnswer(l)
	}
	for i, b := range parts {
		out.Batches[i] = newBatchAnswer(b)
	}
	return answer(c, out)
}

// schema answers GET /api/datasets/D/schema.
func (s *Server) schema(c fiber.Ctx) error {
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
	cols, err := s.engine.Schema(ctx, name)
	if err != nil {
		return err
	}
	out := append([]query.Column{}, cols...) // the engine may keep its own
	for i := range out {
		out[i].Types = list(out[i].Types)
	}
	return answer(c, map[string]any{"columns": out})
}

// count answers GET /api/datasets/D/count.
func (s *Server) count(c fiber.Ctx) error {
	name, err := datasetName(c)
	if err != nil {
		return err
	}
	v, err := values(c, "filter", "batch")
	if err != nil {
		return err
	}
	if v.Get("filter") != "" {
		return badRequest("filter: not available yet")
	}
	parts, err := batches(v)
	if err != nil {
		return err
	}
	ctx, leave, err := s.within(c)
	if err != nil {
		return err
	}
	defer leave()
	n, exact, err := s.engine.Count(ctx, name, parts)
	if err != nil {
		return err
	}
	return answer(c, struct {
		Count int64 `json:"count"`
		Exact bool  `json:"exact"`
	}{n, exact})
}
