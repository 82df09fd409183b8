package login

import (
	"cmp"
	"math"
)

// newToName reports whether the pair has hardly any attempts.
func (a *attemptState) newToName() bool {
	if n := a.of[byNetwork]; a.of[byPair] == nil || n != nil && len(n.units) >= networkTries {
		return false
	}
	tries := max(len(a.of[byPair].units), int(a.of[byPair].dataOf(&rule{id: triesRule}).times))
	for _, u := range a.of[byIP].units {
		if u.owes && u.name == a.tag {
			tries++
		}
	}
	return tries < ownTries
}

// count returns the count of the state that r counts.
func (a *attemptState) count(r *rule, now int64) (failed, all int64) {
	failed, all = a.of[r.kind].count(r, now)
	switch {
	case r.kind == byPair && r.Consecutive:
		all += a.inFlight(math.MinInt64)
	case r.kind == byPair:
		all += a.inFlight(now - r.window)
	}
	return failed, all
}

// ruleState returns the state of r at now: whether its penalty is in force, and for how long, or whether pending attempts use up the
// limit.
func (a *attemptState) ruleState(r *rule, now int64) (active bool, left int64, held bool) {
	failed, all := a.count(r, now)
	limit := int64(r.Limit)
	m := a.of[r.kind].dataOf(r)
	switch {
	case r.length > 0:
		active, left = now < m.until && (!r.Consecutive || failed >= limit), m.until-now
	default:
		active = failed >= limit
	}
	return active, left, all > failed && all >= limit
}

// An evaluation is what the rules decide on an attempt.
type evaluation struct {
	action action
	rule   int   // the rule that decided; -1: none
	left   int64 // until a retry may help; 0: unknown
	held   bool  // only because of pending attempts
	shadow int   // the strongest shadow rule that would have acted; -1: none
}

// counts reports whether states of kind k count for an attempt with a valid device token, or for one without.
func counts(device bool, k kind) bool {
	switch k {
	case byName, byPair:
		return !device
	case byDevice:
		return device
	}
	return true
}

// evaluateRule returns what r decides on an attempt; false if r does not act.
func (a *attemptState) evaluateRule(r *rule, device, solved, newToName bool, now int64) (evaluation, bool) {
	switch {
	case device && r.kind != byDevice && r.action != ban: // the device's own counter suffices
		return evaluation{}, false
	case r.kind == byName && r.action == delay && newToName: // a delay applies only to addresses that have failed at this name
		return evaluation{}, false
	case r.action == challenge && solved:
		return evaluation{}, false
	}
	active, left, held := a.ruleState(r, now)
	switch {
	case active && r.action < ban && r.length == 0:
		return evaluation{action: r.action, shadow: -1}, true
	case active && r.action < ban:
		return evaluation{action: r.action, left: left, shadow: -1}, true
	case held:
		return evaluation{action: delay, left: holdFor, held: true, shadow: -1}, true
	}
	return evaluation{}, false
}

// evaluate decides an attempt at now by its states.
func (rs *ruleSet) evaluate(a *attemptState, device, solved bool, now int64) evaluation {
	v := evaluation{rule: -1, shadow: -1}
	best := evaluation{} // of the shadow rules
	newToName := a.newToName()
	for k, s := range a.of {
		if s == nil || !counts(device, kind(k)) {
			continue
		}
		for i := range rs.rules {
			r := &rs.rules[i]
			if r.kind != kind(k) {
				continue
			}
			found, ok := a.evaluateRule(r, device, solved, newToName, now)
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
	if ip := a.of[byIP]; ip != nil && v.action < delay && ip.pending() >= rs.flight[byIP] {
		v = evaluation{action: delay, rule: -1, left: holdFor, held: true, shadow: -1}
	}
	if best.action != allow {
		v.shadow = best.rule
	}
	return v
}

// revoked reports whether the device's token has been revoked for too many failures.
func (rs *ruleSet) revoked(a *attemptState, now int64) bool {
	for i := range rs.rules {
		if r := &rs.rules[i]; r.kind == byDevice && r.action == revoke && !r.Shadow {
			if active, _, _ := a.ruleState(r, now); active {
				return true
			}
		}
	}
	return false
}

// failures returns the highest recent number of failures of the name and of the address.
func (rs *ruleSet) failures(a *attemptState) (most int64) {
	for _, k := range [...]kind{byName, byIP} {
		s := a.of[k]
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
		for i := range rs.rules {
			if r := &rs.rules[i]; r.kind == k && r.Consecutive {
				most = max(most, s.dataOf(r).times)
			}
		}
	}
	return most
}
