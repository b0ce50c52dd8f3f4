package dataset

import (
	"crypto/sha256"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// DerivedID is the id of a stored line that came without one: a pure function
// of the chunk's key and the line's number, so that every reader gives the same.
// It has the form of a UUID of version 8.
func DerivedID(chunkKey string, line int) string {
	sum := sha256.Sum256([]byte("siltstone derived id\x00" + chunkKey + "\x00" + strconv.Itoa(line)))
	u := uuid.UUID(sum[:16])
	u[6] = u[6]&0x0F | 0x80
	u[8] = u[8]&0x3F | 0x80
	return u.String()
}

// idClock makes UUIDv7 that grow strictly, also within a millisecond and when
// the clock goes back. (uuid.NewV7 does so only with the clock of the process.)
type idClock struct {
	random io.Reader
	last   int64 // milliseconds << 12 | fraction
}

func (c *idClock) next(now time.Time) (string, error) {
	var u uuid.UUID
	if _, err := io.ReadFull(c.random, u[8:]); err != nil {
		return "", fmt.Errorf("draw an id: %w", err)
	}
	nanos := min(max(now.UnixNano(), 0), 1<<62)
	milli := nanos / int64(time.Millisecond)
	c.last = max(milli<<12|nanos%int64(time.Millisecond)>>8, c.last+1)
	t := c.last >> 12
	for i := range 6 {
		u[i] = byte(t >> (40 - 8*i))
	}
	u[6] = 0x70 | byte(c.last>>8)&0x0F
	u[7] = byte(c.last)
	u[8] = u[8]&0x3F | 0x80
	return u.String(), nil
}
