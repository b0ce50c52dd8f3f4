package cache

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
)

// Key names bytes that never change: a part of one version of an object, or what
// was made of it.
type Key struct {
	Object  string // its key in the store
	Version string // its SHA-256 or ETag
	Part    string // which part, or what was made of it; empty for the whole
}

// Range is the Part that stands for some bytes of the object.
func Range(offset, length int64) string { return fmt.Sprintf("%d+%d", offset, length) }

type keySum [sha256.Size]byte

func (k Key) sum() keySum {
	var b []byte
	for _, s := range []string{k.Object, k.Version, k.Part} {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(s))), s...)
	}
	return sha256.Sum256(b)
}

// path is where an entry lies within the folder: 256 subfolders keep each of
// them small with a hundred thousand entries.
func (k keySum) path() string {
	s := hex.EncodeToString(k[:])
	return s[:2] + "/" + s[2:]
}

// An entry is a header and the content:
//
//	magic 8 | sum of the key 32 | length 8 | CRC-32C of all that and of the content 4 | content
//
// A file that was cut, grew zeros in a power cut, or is another's does not match.
const headerBytes = 8 + sha256.Size + 8 + 4

const magic = "siltcch1"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func encodeEntry(k keySum, content []byte) []byte {
	b := make([]byte, 0, headerBytes+len(content))
	b = append(b, magic...)
	b = append(b, k[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(len(content)))
	crc := crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, content)
	b = binary.BigEndian.AppendUint32(b, crc)
	return append(b, content...)
}

// decodeEntry gives the content, which aliases b; ok is false for bytes that are
// not a whole entry of that key.
func decodeEntry(k keySum, b []byte) (content []byte, ok bool) {
	if len(b) < headerBytes || string(b[:8]) != magic || string(b[8:8+sha256.Size]) != string(k[:]) {
		return nil, false
	}
	content = b[headerBytes:]
	if binary.BigEndian.Uint64(b[headerBytes-12:]) != uint64(len(content)) {
		return nil, false
	}
	crc := crc32.Update(crc32.Checksum(b[:headerBytes-4], castagnoli), castagnoli, content)
	return content, binary.BigEndian.Uint32(b[headerBytes-4:]) == crc
}
