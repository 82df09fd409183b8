package login

// A unit is an attempt that failed, or is under way.
type unit struct {
	at      int64
	pending bool

	// Of a state byIP. An attempt under way is not written to the state of its pair, which spares a third of the writes: it is found here. It
	// owes until the pair has been told how it ended.
	name nameTag
	owes bool
}

// A nameTag tells the names that were tried from an address from each other.
type nameTag [6]byte

// A mark is what a rule remembers of a state besides units.
type mark struct {
	rule  uint32
	until int64 // end of the penalty; of failures in a row without one the last of them
	times int64 // penalties in a row, or failures
}

// A board is the states that an attempt counts in. A nil state is not counted.
type board struct {
	of  [kinds]*state
	tag nameTag // of the name
}

// inFlight returns how many attempts of the pair are under way that began after since.
func (b *board) inFlight(since int64) (n int64) {
	for _, u := range b.of[byIP].units {
		if u.owes && u.pending && u.name == b.tag && u.at > since {
			n++
		}
	}
	return n
}

// A state is what is known of one name, pair, address, network or device. The zero state knows nothing.
type state struct {
	units []unit // oldest first
	marks []mark
}

func (s *state) empty() bool { return len(s.units) == 0 && len(s.marks) == 0 }

// pending is how many attempts are under way.
func (s *state) pending() (n int) {
	for _, u := range s.units {
		if u.pending {
			n++
		}
	}
	return n
}

func (s *state) mark(r *rule) mark {
	for _, m := range s.marks {
		if m.rule == r.id {
			return m
		}
	}
	return mark{rule: r.id}
}

func (s *state) setMark(m mark) {
	for i := range s.marks {
		if s.marks[i].rule == m.rule {
			s.marks[i] = m
			return
		}
	}
	s.marks = append(s.marks, m)
}

// count returns how much of s counts for r at t: what has failed, and that with what is under way.
func (s *state) count(r *rule, t int64) (failed, all int64) {
	if r.Consecutive {
		failed = s.mark(r).times
		return failed, failed + int64(s.pending())
	}
	var names map[nameTag]bool // whether it has failed
	if r.distinct {
		names = map[nameTag]bool{}
	}
	for _, u := range s.units {
		switch {
		case u.at <= t-r.window:
		case r.distinct:
			names[u.name] = names[u.name] || !u.pending
		default:
			all++
			if !u.pending {
				failed++
			}
		}
	}
	for _, hasFailed := range names {
		all++
		if hasFailed {
			failed++
		}
	}
	return failed, all
}
