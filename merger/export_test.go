package merger

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/dataset"
)

// Candidate is a row for Decide.
type Candidate struct {
	ID      string
	Digest  byte
	Created time.Time
	Source  uint32
	Line    uint64
}

// Decide runs the external decision, and gives which of the candidates stay
// (by source and line) and why others do not.
func Decide(dir string, budget int64, rows []Candidate, takenIDs []string, takenDigests []byte) (map[[2]uint64]string, []byte, error) {
	all := block.NewSorter(dir, budget)
	defer all.Close()
	out := map[[2]uint64]string{}
	for _, r := range rows {
		p := place{class: classNew, created: r.Created, source: r.Source, line: r.Line}
		key := append(appendRowKey(nil, r.ID, p), digestOf(r.Digest)...)
		if err := all.Add(binary.BigEndian.AppendUint64(key, r.Line), []byte("the line")); err != nil {
			return nil, nil, err
		}
		out[[2]uint64{uint64(r.Source), r.Line}] = "stays"
	}
	var ids idList
	for _, id := range takenIDs {
		ids = append(ids, block.AppendID(nil, id))
	}
	var digests digestList
	for _, d := range takenDigests {
		digests = append(digests, dataset.Digest(digestOf(d)))
	}
	v, err := decideNew(dir, budget, []string{"k"}, all, &ids, &seeker{stream: &digestBytes{in: &digests}})
	if err != nil {
		return nil, nil, err
	}
	defer v.close()
	drops, err := v.drops.Sort()
	if err != nil {
		return nil, nil, err
	}
	for {
		rec, err := drops.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		source, line := sourceOfRow(rec.Key)
		out[[2]uint64{uint64(source), line}] = map[byte]string{dropID: "id", dropDigest: "digest"}[rec.Payload[0]]
	}
	kept, err := v.sortedDigests()
	if err != nil {
		return nil, nil, err
	}
	var keptDigests []byte
	for {
		d, err := kept.Next()
		if err == io.EOF && v.kept != int64(len(keptDigests)) {
			return nil, nil, fmt.Errorf("%d rows stay, and there are %d digests", v.kept, len(keptDigests))
		}
		if err == io.EOF {
			return out, keptDigests, nil
		}
		if err != nil {
			return nil, nil, err
		}
		keptDigests = append(keptDigests, d[15])
	}
}

// HarmHeldDigests changes every digest file that is held on disk, and tells how
// many there are.
func (e *Engine) HarmHeldDigests() (n int) {
	for _, h := range e.held.held {
		if h.file == nil {
			continue
		}
		n++
		for at := int64(0); at < h.size(); at += digestPage {
			if _, err := h.file.WriteAt([]byte("harm"), at); err != nil {
				panic(err)
			}
		}
	}
	return n
}

func digestOf(b byte) []byte { return binary.BigEndian.AppendUint64(make([]byte, 8), uint64(b)) }

type idList [][]byte

func (l *idList) Next() ([]byte, error) {
	if len(*l) == 0 {
		return nil, io.EOF
	}
	v := (*l)[0]
	*l = (*l)[1:]
	return v, nil
}

type digestList []dataset.Digest

func (l *digestList) Next() (dataset.Digest, error) {
	if len(*l) == 0 {
		return dataset.Digest{}, io.EOF
	}
	v := (*l)[0]
	*l = (*l)[1:]
	return v, nil
}

// WithoutOwnBatch exports withoutOwnBatch.
func WithoutOwnBatch(r dataset.Row, batch string) (dataset.Row, bool) {
	return withoutOwnBatch(r, batch)
}
