package s3

// PartSize is the size of the parts of an upload.
var PartSize = partSize

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
