package merger

import (
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
	"github.com/siltstone-data/siltstone/objstore"
)

// source is a file that rows come from: a live chunk, or a merged file of an
// older tool. Its index among the sources of an attempt orders its rows.
type source struct {
	key   string
	name  string // under _rejected/
	etag  string // the version that was listed: only that is read
	size  int64
	class byte
	want  *catalog.Block // what a merged file must be, where a record says so
	batch string         // of an older tool's file
}

func chunkSource(c catalog.Chunk) source {
	return source{key: c.Key(), name: c.Name(), etag: c.ETag, size: c.Size, class: classNew}
}

func mergedSource(f numbered) source {
	return source{key: f.Info.Key, name: f.File, etag: f.ETag, size: f.Size, class: classMerged, batch: f.Batch.Batch}
}

func (s source) span() objstore.Span { return objstore.Span{ETag: s.etag} }

// rejectedKey is where the lines of the source that were not merged are kept.
func (s source) rejectedKey(b dataset.BatchID) string { return b.RejectedKey(s.name) }
