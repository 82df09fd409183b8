package login

import (
	"cmp"
	"math"
)

// newToName reports whether hardly anything is known of the pair.
func (b *board) newToName() bool {
	if n := b.of[byNetwork]; b.of[byPair] == nil || n != nil && len(n.units) >= networkTries {
		return false
	}
	tries := max(len(b.of[byPair].units), int(b.of[byPair].mark(&rule{id: triesMark}).times))
	for _, u := range b.of[byIP].units {
		if u.owes && u.name == b.tag {
			tries++
		}
	}
	return tries < ownTries
}

// count is that of the state which r counts.
func (b *board) count(r *rule, now int64) (failed, all int64) {
	failed, all = b.of[r.kind].count(r, now)
	switch {
	case r.kind == byPair && r.Consecutive:
		all += b.inFlight(math.MinInt64)
	case r.kind == byPair:
		all += b.inFlight(now - r.window)
	}
	return failed, all
}

// standing is what r says at now: that its penalty is in force and for how much longer, or that too much is under way.
func (b *board) standing(r *rule, now int64) (active bool, left int64, held bool) {
	failed, all := b.count(r, now)
	limit := int64(r.Limit)
	m := b.of[r.kind].mark(r)
	switch {
	case r.length > 0:
		active, left = now < m.until && (!r.Consecutive || failed >= limit), m.until-now
	default:
		active = failed >= limit
	}
	return active, left, all > failed && all >= limit
}

// A verdict is what the ladder says to an attempt.
type verdict struct {
	action action
	rule   int   // that decided; -1: none
	left   int64 // until asking again may help; 0 where nobody knows
	held   bool  // only for what is under way
	shadow int   // the strongest rule in shadow that would have acted; -1: none
}

// in reports whether k counts in the lane.
func in(device bool, k kind) bool {
	switch k {
	case byName, byPair:
		return !device
	case byDevice:
		return device
	}
	return true
}

// says returns what r says to an attempt, or false if that is nothing.
func (b *board) says(r *rule, device, solved, newToName bool, now int64) (verdict, bool) {
	switch {
	case device && r.kind != byDevice && r.action != ban: // the device's own counter is enough
		return verdict{}, false
	case r.kind == byName && r.action == delay && newToName: // who is new to a name need not wait for those that guess it
		return verdict{}, false
	case r.action == challenge && solved:
		return verdict{}, false
	}
	active, left, held := b.standing(r, now)
	switch {
	case active && r.action < ban && r.length == 0:
		return verdict{action: r.action, shadow: -1}, true
	case active && r.action < ban:
		return verdict{action: r.action, left: left, shadow: -1}, true
	case held:
		return verdict{action: delay, left: holdFor, held: true, shadow: -1}, true
	}
	return verdict{}, false
}

// judge decides an attempt by its states at now.
func (l *ladder) judge(b *board, device, solved bool, now int64) verdict {
	v := verdict{rule: -1, shadow: -1}
	best := verdict{} // of those in shadow
	newToName := b.newToName()
	for k, s := range b.of {
		if s == nil || !in(device, kind(k)) {
			continue
		}
		for i := range l.rules {
			r := &l.rules[i]
			if r.kind != kind(k) {
				continue
			}
			found, ok := b.says(r, device, solved, newToName, now)
			into := &v
			if r.Shadow {
				into = &best
			}
			if ok && cmp.Or(cmp.Compare(found.action, into.action), cmp.Compare(found.left, into.left)) > 0 {
				found.rule = i
				*into = found
			}
		}
	}
	// What is under way from an address is all that is known of its pairs, so none of it may be dropped for want of room.
	if ip := b.of[byIP]; ip != nil && v.action < delay && ip.pending() >= l.flight[byIP] {
		v = verdict{action: delay, rule: -1, left: holdFor, held: true, shadow: -1}
	}
	if best.action != allow {
		v.shadow = best.rule
	}
	return v
}

// revoked reports whether the device has failed too often.
func (l *ladder) revoked(b *board, now int64) bool {
	for i := range l.rules {
		if r := &l.rules[i]; r.kind == byDevice && r.action == revoke && !r.Shadow {
			if active, _, _ := b.standing(r, now); active {
				return true
			}
		}
	}
	return false
}

// failures is how often has failed lately what the states stand for, at most.
func (l *ladder) failures(b *board) (most int64) {
	for _, k := range [...]kind{byName, byIP} {
		s := b.of[k]
		if s == nil {
			continue
		}
		failed := int64(0)
		for _, u := range s.units {
			if !u.pending {
				failed++
			}
		}
		most = max(most, failed)
		for i := range l.rules {
			if r := &l.rules[i]; r.kind == k && r.Consecutive {
				most = max(most, s.mark(r).times)
			}
		}
	}
	return most
}
