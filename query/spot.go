package query

// spot is a place between rows where a walk starts. The zero spot lies before
// all rows.
type spot struct {
	Cursor
	with bool // the row of the cursor is still to be given
	end  bool // behind all rows; the cursor is empty
}

// beyond reports whether a walk that starts at the spot, up or down, comes to c.
func (s spot) beyond(c Cursor, down bool) bool {
	if s.end {
		return down
	}
	d := c.Compare(s.Cursor)
	return d == 0 && s.with || (d > 0) != down && d != 0
}

// ordered compares two places by which a walk, up or down, comes to first.
func ordered(a, b Cursor, down bool) int {
	if down {
		return b.Compare(a)
	}
	return a.Compare(b)
}
