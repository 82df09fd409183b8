package login

import (
	"cmp"
	"math"
)

// newToName reports whether the pair has hardly any attempts.
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

// count returns the count of the state that r counts.
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

// standing returns the state of r at now: whether its penalty is in force, and for how long, or whether pending attempts use up the
// limit.
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

// A verdict is the decision of the ladder on an attempt.
type verdict struct {
	action action
	rule   int   // the rule that decided; -1: none
	left   int64 // until a retry may help; 0: unknown
	held   bool  // only because of pending attempts
	shadow int   // the strongest shadow rule that would have acted; -1: none
}

// in reports whether states of kind k count in the lane.
func in(device bool, k kind) bool {
	switch k {
	case byName, byPair:
		return !device
	case byDevice:
		return device
	}
	return true
}

// says returns the verdict of r on an attempt; false if r does not act.
func (b *board) says(r *rule, device, solved, newToName bool, now int64) (verdict, bool) {
	switch {
	case device && r.kind != byDevice && r.action != ban: // the device's own counter suffices
		return verdict{}, false
	case r.kind == byName && r.action == delay && newToName: // a delay applies only to addresses that have failed at this name
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

// judge decides an attempt at now by its states.
func (l *ladder) judge(b *board, device, solved bool, now int64) verdict {
	v := verdict{rule: -1, shadow: -1}
	best := verdict{} // of the shadow rules
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
	// The pending units of an address are the only record of its pairs, so none may be dropped for lack of room.
	if ip := b.of[byIP]; ip != nil && v.action < delay && ip.pending() >= l.flight[byIP] {
		v = verdict{action: delay, rule: -1, left: holdFor, held: true, shadow: -1}
	}
	if best.action != allow {
		v.shadow = best.rule
	}
	return v
}

// revoked reports whether the device's token has been revoked for too many failures.
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

// failures returns the highest recent number of failures of the name and of the address.
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
