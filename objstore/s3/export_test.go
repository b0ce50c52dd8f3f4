package s3

// PartSize is the size of the parts of an upload.
func PartSize(size int64) int64 { return partSize(size, minPart) }

// SmallParts lets an upload be in parts from 5 MiB on, the least that stores
// take: moving more bytes tests nothing more.
func SmallParts(s *Store) { s.sizes = sizes{5 << 20, 5 << 20} }

// Pace is what spaces out the requests of a throttled store.
type Pace = pace

// NewPace is a pace that has not been throttled.
var NewPace = newPace

// Wait waits for a slot.
var Wait = (*pace).wait

// Refused and Served tell a pace how a request ended.
var (
	Refused = (*pace).refused
	Served  = (*pace).served
)

// ContentRange reads a Content-Range header.
var ContentRange = contentRange
