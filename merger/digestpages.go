package merger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"github.com/siltstone-data/siltstone/dataset"
)

// digestPage is how many bytes of a held digest file are read at once.
const digestPage = 16 << 10

// digestsInMemory is how many bytes of a held digest file stay in memory: most
// files of a busy batch are small.
const digestsInMemory = 64 << 10

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)

	errDigestTwice = errors.New("internal error: two rows that stay have one digest")
	errHeldDigests = errors.New("the working folder has lost or changed what was written there")
)

// digestPages is a whole digest file on this machine's disk, or in memory while
// it is small. The first digest and a checksum of each page are kept, which are a
// thousandth of it: a value is found with one read of a page, and a page that
// is not as it was written is noticed.
type digestPages struct {
	rows   int64
	sha256 string
	first  []dataset.Digest
	sums   []uint32
	mem    []byte
	file   *os.File // already without a name: no crash leaves it behind
}

func (p *digestPages) size() int64 { return p.rows * digestLen }

// reader gives the bytes of the file.
func (p *digestPages) reader() *io.SectionReader {
	if p.file == nil {
		return io.NewSectionReader(bytes.NewReader(p.mem), 0, p.size())
	}
	return io.NewSectionReader(p.file, 0, p.size())
}

// page reads page i into buf, and gives what it holds.
func (p *digestPages) page(i int, buf []byte) ([]byte, error) {
	at := int64(i) * digestPage
	n := min(digestPage, p.size()-at)
	if p.file == nil {
		return p.mem[at : at+n], nil
	}
	if _, err := p.file.ReadAt(buf[:n], at); err != nil {
		return nil, fmt.Errorf("read held digests: %w: %w", errHeldDigests, err)
	}
	if crc32.Checksum(buf[:n], castagnoli) != p.sums[i] {
		return nil, fmt.Errorf("read held digests: %w", errHeldDigests)
	}
	return buf[:n], nil
}

func (p *digestPages) close() {
	if p.file != nil {
		_ = p.file.Close()
	}
}

// digestPaging makes a digestPages of digests in order.
type digestPaging struct {
	dir   string
	pages *digestPages
	page  []byte
	last  dataset.Digest
	sum   hash.Hash
}

func newDigestPaging(dir string) *digestPaging {
	return &digestPaging{dir: dir, pages: &digestPages{}, page: make([]byte, 0, digestPage), sum: sha256.New()}
}

func (g *digestPaging) add(d dataset.Digest) error {
	if g.pages.rows > 0 && compareDigests(g.last, d) >= 0 {
		return errDigestTwice
	}
	if len(g.page) == 0 {
		g.pages.first = append(g.pages.first, d)
	}
	g.page, g.last = append(g.page, d[:]...), d
	g.pages.rows++
	if len(g.page) < digestPage {
		return nil
	}
	return g.flush()
}

func (g *digestPaging) flush() error {
	p := g.pages
	g.sum.Write(g.page)
	p.sums = append(p.sums, crc32.Checksum(g.page, castagnoli))
	if p.file == nil && len(p.mem)+len(g.page) > digestsInMemory {
		f, err := os.CreateTemp(g.dir, "digests-*")
		if err != nil {
			return fmt.Errorf("hold digests: %w", err)
		}
		p.file = f
		_ = os.Remove(f.Name())
		if _, err := f.Write(p.mem); err != nil {
			return fmt.Errorf("hold digests: %w", err)
		}
		p.mem = nil
	}
	if p.file == nil {
		p.mem = append(p.mem, g.page...)
	} else if _, err := p.file.Write(g.page); err != nil {
		return fmt.Errorf("hold digests: %w", err)
	}
	g.page = g.page[:0]
	return nil
}

// seal ends the file.
func (g *digestPaging) seal() (*digestPages, error) {
	if len(g.page) > 0 {
		if err := g.flush(); err != nil {
			return nil, err
		}
	}
	g.pages.sha256 = hex.EncodeToString(g.sum.Sum(nil))
	return g.pages, nil
}

func (g *digestPaging) abandon() { g.pages.close() }

// pagedDigests looks values up in pages, and gives them in order.
type pagedDigests struct {
	pages *digestPages
	at    int // page at hand, plus one
	page  []byte
	buf   []byte
	next  int64 // of Next
}

func (s *pagedDigests) turn(i int) (err error) {
	if s.at == i+1 {
		return nil
	}
	if s.buf == nil && s.pages.file != nil {
		s.buf = make([]byte, digestPage)
	}
	s.at = 0
	if s.page, err = s.pages.page(i, s.buf); err == nil {
		s.at = i + 1
	}
	return err
}

func (s *pagedDigests) has(v []byte) (bool, error) {
	i, found := slices.BinarySearchFunc(s.pages.first, v, func(d dataset.Digest, v []byte) int { return bytes.Compare(d[:], v) })
	if found || i == 0 {
		return found, nil
	}
	if err := s.turn(i - 1); err != nil {
		return false, err
	}
	lo, hi := 0, len(s.page)/int(digestLen)
	for lo < hi {
		mid := (lo + hi) / 2
		switch bytes.Compare(s.page[mid*int(digestLen):(mid+1)*int(digestLen)], v) {
		case 0:
			return true, nil
		case -1:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return false, nil
}

func (s *pagedDigests) drain() error { return nil } // it was whole when it was stored here

// Next gives the digests in order.
func (s *pagedDigests) Next() (d dataset.Digest, err error) {
	if s.next == s.pages.rows {
		return d, io.EOF
	}
	at := s.next * digestLen
	if err := s.turn(int(at / digestPage)); err != nil {
		return d, err
	}
	s.next++
	return dataset.Digest(s.page[at%digestPage:][:digestLen]), nil
}
