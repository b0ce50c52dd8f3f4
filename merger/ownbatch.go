package merger

import (
	"encoding/json"

	"github.com/siltstone-data/siltstone/block"
	"github.com/siltstone-data/siltstone/dataset"
)

// ownRow gives a line without the _batch that an older tool has put into it.
func (s source) ownRow(l block.Line, layer bool) block.Line {
	if s.class == classNew || layer || l.Reject != "" || reservedName(l.Row, layer) != dataset.BatchColumn {
		return l
	}
	if row, own := withoutOwnBatch(l.Row, s.batch); own {
		l.Row = row
	}
	return l
}

// withoutOwnBatch takes the _batch out of a row that an older tool has merged, if
// it is that of the batch where the row lies: readers give it anyway. All other
// bytes stay. ok is false where the row is of another batch.
func withoutOwnBatch(r dataset.Row, batch string) (_ dataset.Row, ok bool) {
	raw := r.Raw
	at, first := 1, true // past the brace or comma before a member
	for name, value := range r.Fields() {
		i := pastText(raw, pastSpace(raw, at))  // the name
		i = pastSpace(raw, pastSpace(raw, i)+1) // the colon
		end := pastSpace(raw, i+len(value))     // the comma or brace
		if end >= len(raw) {
			return r, false // a row that was not parsed
		}
		if name == dataset.BatchColumn {
			var own string
			if json.Unmarshal(value, &own) != nil || own != batch {
				return r, false
			}
			from, to := at-1, end // with the comma before it
			if first {
				from = at
				if raw[end] == ',' {
					to = pastSpace(raw, end+1)
				}
			}
			r.Raw = append(append(make([]byte, 0, len(raw)), raw[:from]...), raw[to:]...)
			return r, true
		}
		at, first = end+1, false
	}
	return r, false
}

func pastSpace(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\t' || raw[i] == '\r' || raw[i] == '\n') {
		i++
	}
	return i
}

// pastText is past the quoted text that starts at i.
func pastText(raw []byte, i int) int {
	for i++; i < len(raw) && raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return i + 1
}
