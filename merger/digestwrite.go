package merger

import (
	"context"
	"slices"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/catalog"
	"github.com/siltstone-data/siltstone/dataset"
)

// digests brings the digest files of the next record up to date: the rows that
// were added come in a new one, and files are joined as PlanDigests says.
func (a *attempt) digests(ctx context.Context, next *catalog.Record, v *verdict, files *numbers) error {
	old := next.Digests
	drop := func(d catalog.DigestFile) {
		next.Garbage = append(next.Garbage, catalog.GarbageDigest(d, next.CommittedAt))
	}
	if v == nil || a.fullPass() {
		next.Digests = nil
		for _, d := range old {
			drop(d)
		}
	}
	if v == nil || v.kept == 0 && !a.fullPass() {
		return nil
	}
	kept, err := v.sortedDigests()
	if err != nil {
		return err
	}
	in := []block.Stream[dataset.Digest]{kept}
	if a.fullPass() || len(old) == 0 {
		return a.addDigests(ctx, next, files, in)
	}
	join, withNew := planDigests(old, v.kept, a.cfg.DigestGrowth)
	next.Digests = nil
	for i, d := range old {
		if !slices.Contains(join, i) {
			next.Digests = append(next.Digests, d)
		}
	}
	if !withNew {
		if err := a.addDigests(ctx, next, files, in); err != nil {
			return err
		}
		in = nil
	}
	for _, i := range join {
		stream, done, err := a.known.stream(ctx, old[i])
		if err != nil {
			return err
		}
		defer done()
		in = append(in, stream)
		drop(old[i])
	}
	if len(in) == 0 {
		return nil
	}
	return a.known.lost(a.addDigests(ctx, next, files, in))
}

// addDigests stores streams as one new digest file of the next record.
func (a *attempt) addDigests(ctx context.Context, next *catalog.Record, files *numbers, in []block.Stream[dataset.Digest]) error {
	d, err := a.writeDigests(ctx, files, a.columns, block.Merge(compareDigests, in...))
	if err == nil {
		next.Digests = append(next.Digests, d)
	}
	return err
}

// writeDigests stores a sorted stream as a new digest file.
func (a *attempt) writeDigests(ctx context.Context, files *numbers, columns []string, in block.Stream[dataset.Digest]) (catalog.DigestFile, error) {
	pages, err := pageDigests(a.cfg.WorkDir, in)
	if err != nil {
		return catalog.DigestFile{}, err
	}
	d := catalog.DigestFile{Rows: pages.rows, Bytes: pages.size(), SHA256: pages.sha256, Columns: columns}
	if a.held.fits(d.Bytes) {
		defer a.held.release(a.held.put(pages)) // the next merge will ask for it
	} else {
		defer pages.close()
	}
	n, err := files.create(ctx, func(n int) string { return files.batch.DigestKey(dataset.DigestFile(n)) }, pages.reader(), d.Bytes)
	if err != nil {
		return catalog.DigestFile{}, err
	}
	a.metrics.Bytes.WithLabelValues("digests_written").Add(float64(d.Bytes))
	d.File = dataset.DigestFile(n)
	return d, nil
}
