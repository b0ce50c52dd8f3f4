package dataset

import (
	"bytes"
	"hash/maphash"
	"math"
	"sync"
)

// walk passes over JSON values by the rules of a row. What it takes, the
// decoder takes too, in more than twice the time (docs/decisions/0010). What it
// refuses is the decoder's to judge: it says why.
type walk struct {
	line  []byte
	names names
	text  []byte // the name passed last, where it has escapes
	held  []byte // see hold
	lines bool   // a line break was passed
}

var walks = sync.Pool{New: func() any { return new(walk) }}

func newWalk(line []byte) *walk {
	w := walks.Get().(*walk)
	w.begin(line)
	return w
}

func (w *walk) free() {
	w.begin(nil)
	if cap(w.names) <= 1<<14 && cap(w.text)+cap(w.held) <= 1<<16 { // one huge row must not cost memory for ever
		walks.Put(w)
	}
}

func (w *walk) begin(line []byte) {
	w.line, w.names, w.lines = line, w.names[:0], false
}

// tooLong reports whether offsets in the line may not fit into a name.
func (w *walk) tooLong() bool { return uint64(len(w.line)) > math.MaxUint32 }

// space passes white space, of which there is none in most rows.
func (w *walk) space(i int) int {
	if i < len(w.line) && w.line[i] > ' ' {
		return i
	}
	return w.someSpace(i)
}

func (w *walk) someSpace(i int) int {
	end := skipSpace(w.line, i)
	w.lines = w.lines || bytes.IndexByte(w.line[i:end], '\n') >= 0
	return end
}

// value passes a value that stands in depth objects and arrays.
func (w *walk) value(i, depth int) int {
	switch byteAt(w.line, i) {
	case '{':
		return w.object(i, depth+1)
	case '[':
		return w.array(i, depth+1)
	}
	return skipScalar(w.line, i)
}

func (w *walk) array(i, depth int) int {
	if depth > MaxDepth {
		return refused
	}
	i = w.space(i + 1)
	if byteAt(w.line, i) == ']' {
		return i + 1
	}
	for {
		if i = w.value(i, depth); i < 0 {
			return refused
		}
		i = w.space(i)
		switch byteAt(w.line, i) {
		case ',':
			i = w.space(i + 1)
		case ']':
			return i + 1
		default:
			return refused
		}
	}
}

func (w *walk) object(i, depth int) int {
	if depth > MaxDepth {
		return refused
	}
	i = w.space(i + 1)
	if byteAt(w.line, i) == '}' {
		return i + 1
	}
	first := len(w.names)
	for {
		if i, _ = w.name(i); i < 0 {
			return refused
		}
		if i = w.value(i, depth); i < 0 {
			return refused
		}
		i = w.space(i)
		switch byteAt(w.line, i) {
		case ',':
			i = w.space(i + 1)
		case '}':
			if !w.names.distinct(w.line, first) {
				return refused
			}
			w.names = w.names[:first]
			return i + 1
		default:
			return refused
		}
	}
}

// name passes a member's name, the colon and the space around it, and notes the
// name. The text, which is the name without escapes, is valid until the next
// call.
func (w *walk) name(i int) (value int, text []byte) {
	if byteAt(w.line, i) != '"' {
		return refused, nil
	}
	end := skipPlain(w.line, i+1)
	if byteAt(w.line, end) == '"' {
		text = w.line[i+1 : end] // as nearly always
		end++
	} else {
		if end = skipString(w.line, end); end < 0 {
			return refused, nil
		}
		w.text = appendUnquoted(w.text[:0], w.line[i:end])
		text = w.text
	}
	w.names = append(w.names, name{hash: maphash.Bytes(nameSeed, text), from: uint32(i), to: uint32(end)})
	if end = w.space(end); byteAt(w.line, end) != ':' {
		return refused, nil
	}
	return w.space(end + 1), text
}

// hold keeps the text of the last name until the next hold.
func (w *walk) hold() { w.text, w.held = w.held, w.text }

// fields passes an object and hands out its members, until fn has enough. It
// gives how many it handed out, and whether nothing was left for the decoder.
func (w *walk) fields(fn func(name, value []byte) bool) (n int, ok bool) {
	i := w.space(0)
	if byteAt(w.line, i) != '{' || w.tooLong() {
		return 0, false
	}
	i = w.space(i + 1)
	if byteAt(w.line, i) == '}' {
		return 0, true
	}
	for {
		from, text := w.name(i)
		if from < 0 {
			return n, false
		}
		w.hold()
		w.names = w.names[:0] // equal ones are not looked for
		to := w.value(from, 1)
		if to < 0 {
			return n, false
		}
		if n++; !fn(text, w.line[from:to:to]) {
			return n, true
		}
		i = w.space(to)
		switch byteAt(w.line, i) {
		case ',':
			i = w.space(i + 1)
		case '}':
			return n, true
		default:
			return n, false
		}
	}
}
