package viewerapi

import (
	"context"
	"iter"

	"github.com/siltstone-data/siltstone/nats/bus"
	"github.com/siltstone-data/siltstone/query"
)

// Engine answers questions about datasets, as *query.Engine does.
type Engine interface {
	Datasets(ctx context.Context) ([]query.DatasetInfo, error)
	Dataset(ctx context.Context, name string) (query.DatasetInfo, []query.BatchInfo, error)
	Schema(ctx context.Context, name string) ([]query.Column, error)
	Page(ctx context.Context, q query.PageRequest) (query.Page, error)
	Row(ctx context.Context, dataset, id, batch string) ([]query.Found, error)
	Count(ctx context.Context, dataset string, batches []string) (n int64, exact bool, err error)
	Rows(ctx context.Context, o query.Options) iter.Seq2[query.Row, error]
	Conversion(ctx context.Context, dataset string) (query.Conversion, error)
}

var _ Engine = (*query.Engine)(nil)

// Bus gives events and jobs, as *bus.Bus does.
type Bus interface {
	Events
	Jobs(ctx context.Context) iter.Seq2[bus.JobState, error]
	Dead(ctx context.Context) iter.Seq2[bus.DeadLetter, error]
	Retry(ctx context.Context, id string) error
}

// Events gives the domain events in order, as *bus.Bus does.
type Events interface {
	Position(ctx context.Context) (bus.Position, error)
	Tail(ctx context.Context, from bus.TailFrom, follow bool) iter.Seq2[bus.Tailed, error]
}

var _ Bus = (*bus.Bus)(nil)
