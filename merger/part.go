package merger

// part is how far the rows of a segment have come since its last cut.
type part struct {
	segment Segment
	limits  Limits // of a block
	come    int64  // new rows that are still to come
	added   bool   // one of them has stayed
	kept    Load   // since the last cut
	rest    Load   // all from there on, at most
}

// enter begins a segment, and gives the limits of its blocks.
func (p *part) enter(s Segment, limits Limits) Limits {
	*p = part{segment: s, limits: limits, come: s.New, rest: s.Load}
	return p.split()
}

// split gives the limits of the blocks that what is left becomes.
func (p *part) split() Limits { return p.limits.Split(p.rest) }

func (p *part) cut() Limits {
	p.rest, p.kept = p.rest.minus(p.kept), Load{}
	return p.split()
}

// before tells whether a block ends before a row that stays.
func (p *part) before(isNew bool) bool {
	return isNew && !p.added && p.segment.Cuts(p.kept, p.rest.minus(p.kept), p.limits)
}

// after counts a row, and tells whether a block ends behind it.
func (p *part) after(size int64, isNew, stays bool) bool {
	if stays {
		p.kept = p.kept.plus(Load{1, size})
	} else {
		p.rest = p.rest.minus(Load{1, size})
	}
	if !isNew {
		return false
	}
	p.come--
	p.added = p.added || stays
	return p.come == 0 && p.added && p.segment.Cuts(p.rest.minus(p.kept), p.kept, p.limits)
}
