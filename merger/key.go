package merger

import (
	"encoding/binary"
	"time"

	"github.com/siltstone-data/siltstone/block"
)

// Classes of rows: those in blocks are decided before new ones, and those of
// blocks that may be an unfinished merge's after all others.
const (
	classMerged  byte = 0
	classUnnamed byte = 1 // of merged files that no record that can be read names
	classNew     byte = 2
	classLeft    byte = 3
)

// place is where a row came from, and its turn in the order in which rows are
// decided, but for its id.
type place struct {
	class   byte
	created time.Time // zero sorts last
	source  uint32
	line    uint64
}

// Every order of rows is an order of bytes. A row key sorts by id and then in
// the order of decision, a rank key in the order of decision:
//
//	row key    id  head  tail
//	rank key   head  id  tail
//
// head is class and time, tail is source and line.
const (
	headLen = 1 + 1 + 8 + 4
	tailLen = 4 + 8
)

func (p place) appendHead(dst []byte) []byte {
	dst = append(dst, p.class)
	if p.created.IsZero() {
		return append(dst, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	}
	dst = append(dst, 0)
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.created.Unix())^1<<63)
	return binary.BigEndian.AppendUint32(dst, uint32(p.created.Nanosecond()))
}

func (p place) appendTail(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, p.source)
	return binary.BigEndian.AppendUint64(dst, p.line)
}

func appendRowKey(dst []byte, id string, p place) []byte {
	return p.appendTail(p.appendHead(block.AppendID(dst, id)))
}

func appendRankKey(dst []byte, id string, p place) []byte {
	return p.appendTail(block.AppendID(p.appendHead(dst), id))
}

// rowKeyOf makes the row key of the row that a rank key belongs to.
func rowKeyOf(dst, rank []byte) []byte {
	dst = append(dst, idOfRank(rank)...)
	dst = append(dst, rank[:headLen]...)
	return append(dst, rank[len(rank)-tailLen:]...)
}

// rankKeyOf makes the rank key of the row that a row key belongs to.
func rankKeyOf(dst, row []byte) []byte {
	head := len(row) - headLen - tailLen
	dst = append(dst, row[head:head+headLen]...)
	dst = append(dst, row[:head]...)
	return append(dst, row[head+headLen:]...)
}

// idOfRank and idOfRow are the encoded id in a key.
func idOfRank(key []byte) []byte { return key[headLen : len(key)-tailLen] }
func idOfRow(key []byte) []byte  { return key[:len(key)-headLen-tailLen] }

func classOfRow(key []byte) byte { return key[len(key)-headLen-tailLen] }

func sourceOfRow(key []byte) (source uint32, line uint64) {
	tail := key[len(key)-tailLen:]
	return binary.BigEndian.Uint32(tail), binary.BigEndian.Uint64(tail[4:])
}
