package login

import (
	"math"
	"slices"
)

// triesRule is the id of the data that counts the failures of a pair while its name is delayed; no rule has this id.
const triesRule = 0

// delayed reports whether a delay rule has acted on the name.
func (rs *ruleSet) delayed(a *attemptState) bool {
	return a.of[byName] != nil && slices.ContainsFunc(rs.rules, func(r rule) bool {
		return r.kind == byName && r.action == delay && a.of[byName].dataOf(&r).times > 0
	})
}

// remember keeps a failure of the pair for a day. It does so only if the name has been delayed; otherwise an invented name would occupy a
// key for a day.
func (rs *ruleSet) remember(a *attemptState, t int64) {
	if rs.delayed(a) {
		m := a.of[byPair].dataOf(&rule{id: triesRule})
		m.times++
		m.until = t + pairMemory
		a.of[byPair].setData(m)
	}
}

// adopt adds failures that were not settled in time from the address to the pair.
func (rs *ruleSet) adopt(a *attemptState) (penalties []penalty) {
	if a.of[byPair] == nil {
		return nil
	}
	for i := range a.of[byIP].units {
		if u := &a.of[byIP].units[i]; u.owes && !u.pending && u.name == a.tag {
			u.owes = false
			a.of[byPair].units = append(a.of[byPair].units, unit{at: u.at})
			penalties = append(penalties, rs.fail(byPair, a.of[byPair], u.at+settleWithin)...)
			rs.remember(a, u.at+settleWithin)
		}
	}
	return penalties
}

// A penalty is one that has just begun.
type penalty struct {
	rule  int
	until int64 // 0: as long as the failures count
	times int64 // 0: the penalty continues
}

// fail applies the rules after a failure at t, which is among the units already.
func (rs *ruleSet) fail(k kind, s *state, t int64) (penalties []penalty) {
	for i := range rs.rules {
		r := &rs.rules[i]
		if r.kind != k {
			continue
		}
		m := s.dataOf(r)
		fresh := t >= m.until
		if r.Consecutive {
			m.times++
			m.until = t + r.length
			s.setData(m)
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
				s.setData(m)
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
			penalties = append(penalties, penalty{i, until, m.times})
		}
	}
	return penalties
}

// age updates all states of b to now.
func (rs *ruleSet) age(a *attemptState, now int64) (penalties []penalty) {
	for k, s := range a.of {
		if s != nil {
			penalties = append(penalties, rs.ageOne(kind(k), s, now)...)
		}
	}
	return append(penalties, rs.adopt(a)...)
}

// cut ends penalties when they would end if they began at now: if they end later, the clock was set back.
func (rs *ruleSet) cut(s *state, now int64) {
	for i := range s.data {
		m := &s.data[i]
		switch r := rs.index(m.rule); {
		case m.rule == triesRule:
			m.until = min(m.until, now+pairMemory)
		case r < 0: // of a rule that is unknown here
		case rs.rules[r].Consecutive:
			m.until = min(m.until, now+rs.rules[r].length)
		default:
			m.until = min(m.until, now+rs.rules[r].lasts(m.times))
		}
	}
}

// ageOne turns attempts that were not settled in time into failures, and drops expired data.
func (rs *ruleSet) ageOne(k kind, s *state, now int64) (penalties []penalty) {
	if rs.lapses {
		s.units = slices.DeleteFunc(s.units, func(u unit) bool { return u.pending && now >= u.at+lapseWithin })
	}
	rs.cut(s, now)
	for i := range s.units {
		u := &s.units[i]
		if u.at > now+settleWithin { // the clock was set back, as after a failover
			u.at = now
		}
		if u.pending && now >= u.at+settleWithin {
			u.pending = false
			penalties = append(penalties, rs.fail(k, s, u.at+settleWithin)...)
		}
	}
	pending := s.pending()
	failed := len(s.units) - pending - rs.room[k] // surplus of each kind: failed and pending units do not displace each other
	pending -= rs.flight[k]
	kept := s.units[:0]
	for _, u := range s.units {
		surplus := &failed
		if u.pending {
			surplus = &pending
		}
		if *surplus--; *surplus < 0 && u.at > now-rs.horizon[k] {
			kept = append(kept, u)
		}
	}
	s.units = kept
	crowded := len(s.data) > maxRuleData
	s.data = slices.DeleteFunc(s.data, func(m ruleData) bool {
		return now > rs.ends(m) || crowded && m.rule != triesRule && rs.index(m.rule) < 0
	})
	return penalties
}

// ends returns when m expires. For a rule that is unknown here, because another process has newer or older rules, it assumes a default.
func (rs *ruleSet) ends(m ruleData) int64 {
	if m.rule == triesRule {
		return m.until
	}
	if i := rs.index(m.rule); i >= 0 {
		return m.until + rs.rules[i].memory(m.times)
	}
	return m.until + min(m.times*hour, streakMemory)
}

// expires returns when s, which is not empty, expires.
func (rs *ruleSet) expires(k kind, s *state) int64 {
	at := int64(math.MinInt64)
	for _, u := range s.units {
		if u.pending {
			at = max(at, u.at+rs.keep[k])
		} else {
			at = max(at, u.at+rs.horizon[k])
		}
	}
	for _, m := range s.data {
		at = max(at, rs.ends(m))
	}
	return at
}
