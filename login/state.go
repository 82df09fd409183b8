package login

// A unit is an attempt that is pending or has failed.
type unit struct {
	at      int64
	pending bool

	// Only in a state byIP. A pending attempt is not written to the state of its pair but found here, which saves a third of the writes.
	// owes: its result has not been added to the pair yet.
	name nameTag
	owes bool
}

// A nameTag distinguishes the names that were tried from an address.
type nameTag [6]byte

// ruleData is what a state holds for a rule besides units.
type ruleData struct {
	rule  uint32
	until int64 // end of the penalty; for consecutive failures without a penalty, the time of the last one
	times int64 // consecutive penalties, or failures
}

// An attemptState is the set of states in which an attempt counts. A nil state is not counted.
type attemptState struct {
	of  [kinds]*state
	tag nameTag // of the name
}

// inFlight returns how many attempts of the pair are pending that began after since.
func (a *attemptState) inFlight(since int64) (n int64) {
	for _, u := range a.of[byIP].units {
		if u.owes && u.pending && u.name == a.tag && u.at > since {
			n++
		}
	}
	return n
}

// A state is the data of one name, pair, address, network or device. The zero state is empty.
type state struct {
	units []unit // oldest first
	data  []ruleData
}

func (s *state) empty() bool { return len(s.units) == 0 && len(s.data) == 0 }

// pending returns the number of pending attempts.
func (s *state) pending() (n int) {
	for _, u := range s.units {
		if u.pending {
			n++
		}
	}
	return n
}

func (s *state) dataOf(r *rule) ruleData {
	for _, m := range s.data {
		if m.rule == r.id {
			return m
		}
	}
	return ruleData{rule: r.id}
}

func (s *state) setData(m ruleData) {
	for i := range s.data {
		if s.data[i].rule == m.rule {
			s.data[i] = m
			return
		}
	}
	s.data = append(s.data, m)
}

// count returns how much of s counts for r at t: the failures, and the failures plus pending attempts.
func (s *state) count(r *rule, t int64) (failed, all int64) {
	if r.Consecutive {
		failed = s.dataOf(r).times
		return failed, failed + int64(s.pending())
	}
	var names map[nameTag]bool // whether each name has failed
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
