package login

import (
	"math"
	"slices"
)

// triesMark is the mark that counts the failures of a pair while its name is delayed; no rule has this id.
const triesMark = 0

// delayed reports whether a delay rule has acted on the name.
func (l *ladder) delayed(b *board) bool {
	return b.of[byName] != nil && slices.ContainsFunc(l.rules, func(r rule) bool {
		return r.kind == byName && r.action == delay && b.of[byName].mark(&r).times > 0
	})
}

// remember keeps a failure of the pair for a day. It does so only if the name has been delayed; otherwise an invented name would occupy a
// key for a day.
func (l *ladder) remember(b *board, t int64) {
	if l.delayed(b) {
		m := b.of[byPair].mark(&rule{id: triesMark})
		m.times++
		m.until = t + pairMemory
		b.of[byPair].setMark(m)
	}
}

// adopt adds failures that were not settled in time from the address to the pair.
func (l *ladder) adopt(b *board) (trips []trip) {
	if b.of[byPair] == nil {
		return nil
	}
	for i := range b.of[byIP].units {
		if u := &b.of[byIP].units[i]; u.owes && !u.pending && u.name == b.tag {
			u.owes = false
			b.of[byPair].units = append(b.of[byPair].units, unit{at: u.at})
			trips = append(trips, l.fail(byPair, b.of[byPair], u.at+settleWithin)...)
			l.remember(b, u.at+settleWithin)
		}
	}
	return trips
}

// A trip is the start of a penalty.
type trip struct {
	rule  int
	until int64 // 0: as long as the failures count
	times int64 // 0: the penalty continues
}

// fail applies the rules after a failure at t, which is among the units already.
func (l *ladder) fail(k kind, s *state, t int64) (trips []trip) {
	for i := range l.rules {
		r := &l.rules[i]
		if r.kind != k {
			continue
		}
		m := s.mark(r)
		fresh := t >= m.until
		if r.Consecutive {
			m.times++
			m.until = t + r.length
			s.setMark(m)
			fresh = fresh && m.times >= int64(r.Limit)
			if r.length == 0 {
				fresh = m.times == int64(r.Limit)
			}
		} else {
			failed, _ := s.count(r, t)
			switch {
			case failed < int64(r.Limit):
				continue
			case r.length == 0:
				fresh = failed == int64(r.Limit)
			case r.action == deny && t < m.until: // a denial does not extend itself
				continue
			default:
				if t > m.until+r.memory(m.times) {
					m.times = 0
				}
				m.times++
				m.until = t + r.lasts(m.times)
				s.setMark(m)
			}
		}
		if fresh || r.action == ban && !r.Shadow {
			until := m.until
			if r.length == 0 {
				until = 0
			}
			if !fresh { // repeat the ban in case it was lost, without an event
				m.times = 0
			}
			trips = append(trips, trip{i, until, m.times})
		}
	}
	return trips
}

// age updates all states of b to now.
func (l *ladder) age(b *board, now int64) (trips []trip) {
	for k, s := range b.of {
		if s != nil {
			trips = append(trips, l.ageOne(kind(k), s, now)...)
		}
	}
	return append(trips, l.adopt(b)...)
}

// ageOne turns attempts that were not settled in time into failures, and drops expired data.
func (l *ladder) ageOne(k kind, s *state, now int64) (trips []trip) {
	if l.lapses {
		s.units = slices.DeleteFunc(s.units, func(u unit) bool { return u.pending && now >= u.at+lapseWithin })
	}
	for i := range s.units {
		u := &s.units[i]
		if u.at > now+settleWithin { // the clock was set back, as after a failover
			u.at = now
		}
		if u.pending && now >= u.at+settleWithin {
			u.pending = false
			trips = append(trips, l.fail(k, s, u.at+settleWithin)...)
		}
	}
	pending := s.pending()
	failed := len(s.units) - pending - l.room[k] // surplus of each kind: failed and pending units do not displace each other
	pending -= l.flight[k]
	kept := s.units[:0]
	for _, u := range s.units {
		surplus := &failed
		if u.pending {
			surplus = &pending
		}
		if *surplus--; *surplus < 0 && u.at > now-l.horizon[k] {
			kept = append(kept, u)
		}
	}
	s.units = kept
	crowded := len(s.marks) > mostMarks
	s.marks = slices.DeleteFunc(s.marks, func(m mark) bool { return now > l.ends(m) || crowded && m.rule != triesMark && l.index(m.rule) < 0 })
	return trips
}

// ends returns when m expires. For a rule that is unknown here, because another process has newer or older rules, it assumes a default.
func (l *ladder) ends(m mark) int64 {
	if m.rule == triesMark {
		return m.until
	}
	if i := l.index(m.rule); i >= 0 {
		return m.until + l.rules[i].memory(m.times)
	}
	return m.until + min(m.times*hour, streakMemory)
}

// expires returns when s, which is not empty, expires.
func (l *ladder) expires(k kind, s *state) int64 {
	at := int64(math.MinInt64)
	for _, u := range s.units {
		at = max(at, u.at+l.keep[k])
	}
	for _, m := range s.marks {
		at = max(at, l.ends(m))
	}
	return at
}
