package query

import (
	"context"
	"fmt"

	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
)

// Conversion is the progress of a conversion.
type Conversion = catalog.Conversion

// Conversion is how far a dataset is on its way from parquet files of older tools
// to blocks of JSON lines; its state is catalog.ConversionIdle where there is
// none. A *NotFoundError names the nearest dataset where there is none of that
// name.
func (e *Engine) Conversion(ctx context.Context, name string) (Conversion, error) {
	if err := dataset.CheckDataset(name); err != nil {
		return Conversion{}, err
	}
	q := e.ask(ctx)
	c, err := catalog.ReadConversion(ctx, q.store, name)
	if err != nil || c.State != catalog.ConversionIdle {
		return c, err
	}
	for _, err := range q.store.List(ctx, name+"/", "") {
		if err != nil {
			return c, fmt.Errorf("list %q: %w", name, err)
		}
		return c, nil
	}
	return c, q.noDataset(name)
}
