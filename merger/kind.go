package merger

import (
	"context"
	"slices"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
)

// kind is what new blocks of a batch are.
type kind int

const (
	gzipBlocks kind = iota
	parquetBlocks
)

// blockWriter writes a block of either kind.
type blockWriter interface {
	Add(r dataset.Row) error
	Close() (block.Info, error)
}

func (k kind) file(n int) string {
	if k == parquetBlocks {
		return dataset.ParquetBlockFile(n)
	}
	return dataset.BlockFile(n)
}

// kind decides what the attempt writes. A batch that has parquet blocks gets no
// others: it would go to and fro between two kinds while its dataset grows and
// shrinks around the limit. The blocks of a batch that goes over the limit stay
// as they are until their rows are written anyway, so a record may have both,
// which every reader takes: nothing rests on this decision. Layers are small
// beside their dataset, and stay lines. A conversion writes lines in any case.
func (a *attempt) kind(ctx context.Context) kind {
	r := a.head.Record
	switch {
	case a.convert:
		return gzipBlocks
	case slices.ContainsFunc(r.Blocks, func(b catalog.Block) bool { return dataset.IsParquetBlock(b.File) }):
		return parquetBlocks
	case a.cfg.MaxJSONLBytes == 0 || a.batch.Annotator != "":
		return gzipBlocks
	}
	size := r.Bytes + a.adopted.size()
	if a.cfg.DatasetBytes != nil && size <= a.cfg.MaxJSONLBytes {
		n, err := a.cfg.DatasetBytes(ctx, a.batch.Dataset)
		if err != nil {
			a.log.Warn("the size of the dataset is not known: blocks are written as lines", "batch", a.batch.String(), "error", err)
			n = 0
		}
		size = max(size, n)
	}
	if size > a.cfg.MaxJSONLBytes {
		return parquetBlocks
	}
	return gzipBlocks
}
