package viewerapi

// ring holds the newest frames, up to a number of them.
type ring struct {
	frames []*frame
	next   int // where the next one goes once the ring is full
}

func (r *ring) empty() bool { return len(r.frames) == 0 }

// add puts a frame in. It gives the sequence number of the frame that had to go
// for it, 0 for none.
func (r *ring) add(f *frame) (gone uint64) {
	if len(r.frames) < ringFrames {
		r.frames = append(r.frames, f)
		return 0
	}
	gone = r.frames[r.next].seq
	r.frames[r.next] = f
	r.next = (r.next + 1) % ringFrames
	return gone
}

// since gives the frames behind a sequence number that the client wants, oldest
// first.
func (r *ring) since(seq uint64, c *client) []*frame {
	var out []*frame
	for i := range r.frames {
		f := r.frames[(r.next+i)%len(r.frames)]
		if f.seq > seq && c.wants(f) {
			out = append(out, f)
		}
	}
	return out
}
