package block

import (
	"fmt"
	"io"

	"github.com/siltstone-data/siltstone/dataset"
)

// ScanFrames makes the frame table of a block by reading it once. In a block of
// another tool a row may lie across members: then they are one frame.
func ScanFrames(r io.Reader) ([]Frame, error) {
	src := &source{r: r}
	m := newMembers(src)
	var starts []memberStart
	m.note = func(raw, offset int64) { starts = append(starts, memberStart{raw, offset}) }
	var frames []Frame
	var next boundary
	s := lineScanner{r: m}
	for {
		line, long, err := s.next()
		switch {
		case err == io.EOF:
			if n := len(frames); n > 0 {
				frames[n-1].Length = m.end - frames[n-1].Offset
			}
			return frames, nil
		case err != nil && src.err != nil:
			return nil, fmt.Errorf("scan block: %w", src.err)
		case err != nil:
			return nil, fmt.Errorf("%w: %w (at compressed byte %d)", ErrDamaged, err, m.offset())
		case long:
			return nil, fmt.Errorf("%w: line %d is longer than %d MiB", ErrDamaged, s.number, dataset.MaxLineBytes>>20)
		}
		starts = next.take(starts, s.at)
		if isBlank(line) {
			continue
		}
		if next.found {
			row, err := dataset.ParseRow(line)
			if err != nil {
				return nil, fmt.Errorf("%w: line %d: %w", ErrDamaged, s.number, err)
			}
			if n := len(frames); n > 0 {
				frames[n-1].Length = next.ended - frames[n-1].Offset
			}
			frames = append(frames, Frame{Offset: next.starts, FirstID: row.ID})
			next = boundary{}
		}
		frames[len(frames)-1].Rows++
	}
}

// memberStart is where a member starts, in raw and in compressed bytes.
type memberStart struct{ raw, offset int64 }

// boundary is where one frame ends and the next one starts. Members without a
// row may lie between.
type boundary struct {
	found         bool
	ended, starts int64
}

// take removes the members that start at or before the line at raw. Only one
// that starts with the line is a boundary.
func (b *boundary) take(starts []memberStart, raw int64) []memberStart {
	i := 0
	for ; i < len(starts) && starts[i].raw <= raw; i++ {
		if starts[i].raw < raw {
			continue
		}
		if !b.found {
			b.found, b.ended = true, starts[i].offset
		}
		b.starts = starts[i].offset
	}
	return append(starts[:0], starts[i:]...)
}
