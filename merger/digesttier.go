package merger

import (
	"cmp"
	"slices"

	"github.com/siltstone-data/siltstone/catalog"
)

// digestGrowth is by how much at least a digest's file grows when it is joined
// with others: so a digest is written log8 times.
const digestGrowth = 8

// PlanDigests decides which digest files are joined when one with so many new
// digests comes: the indexes of files, and whether the new one goes with them.
// Those of the smallest are joined that together have digestGrowth times the
// digests of the largest among them, and as many of them as do. What stays is
// mostly some seven files for each factor eight in size, and never more than
// log(digests)/log(8/7): 104 for a million, 156 for a thousand million.
func PlanDigests(files []catalog.DigestFile, added int64) (join []int, withNew bool) {
	return planDigests(files, added, digestGrowth)
}

func planDigests(files []catalog.DigestFile, added, growth int64) (join []int, withNew bool) {
	const isNew = -1
	order := []int{isNew}
	rows := func(i int) int64 {
		if i == isNew {
			return added
		}
		return files[i].Rows
	}
	for i := range files {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rows(a), rows(b)) })
	n, sum := 0, int64(0)
	for i, f := range order {
		if sum += rows(f); i > 0 && sum >= growth*rows(f) {
			n = i + 1
		}
	}
	for _, f := range order[:n] {
		if f == isNew {
			withNew = true
		} else {
			join = append(join, f)
		}
	}
	slices.Sort(join)
	return join, withNew
}
