package login

import "slices"

// An op is an operation of a store. The script uses the same numbers.
type op byte

const (
	opReserve op = iota // count an attempt if it is allowed
	opCheck             // change nothing
	opReport            // count a failure
	opSettle            // record the result of an attempt
)

// Result is how an attempt ended. It is a closed set.
type Result string

// The results.
const (
	Success Result = "success"
	Failure Result = "failure"
	Error   Result = "error" // the result is unknown or nothing was checked: the attempt is not counted
)

// results are the letters used by the script.
var results = map[Result]byte{Success: 's', Failure: 'f', Error: 'e'}

// A call is one request to a store.
type call struct {
	rules  *ruleSet
	op     op
	keys   [kinds]string // of the states; empty: not counted
	name   nameTag
	device bool   // settle: the attempt was counted by its device token
	solved bool   // reserve, check, report: the caller has solved a challenge
	at     int64  // settle: when the attempt was reserved
	result byte   // settle
	record string // key of the recorded answer, which check only reads; empty: not recorded
}

// An outcome is the outcome of a settlement. The script uses the same numbers.
type outcome byte

const (
	settled outcome = iota
	settledOther
	settledLate
)

// A reply is a store's reply.
type reply struct {
	evaluation

	at        int64 // when the attempt was decided
	device    bool  // counted by its device token
	known     bool  // from a record: the call was repeated
	failures  int64
	outcome   outcome // of a settlement
	penalties []penalty
}

// attempt executes reserve, check and report on b. The caller stores the changed states.
func (rs *ruleSet) attempt(a *attemptState, c *call, now int64) reply {
	re := reply{at: now, penalties: rs.age(a, now)}
	re.device = a.of[byDevice] != nil && !rs.revoked(a, now)
	re.evaluation = rs.evaluate(a, re.device, c.solved, now)
	switch {
	case c.op == opReserve && re.action == allow:
		for k, s := range a.of {
			if k := kind(k); s != nil && k != byPair && counts(re.device, k) {
				s.units = append(s.units, c.unit(k, now, re.device))
			}
		}
	case c.op == opReport && re.action != deny:
		for k, s := range a.of {
			if k := kind(k); s != nil && counts(re.device, k) {
				re.penalties = append(re.penalties, rs.failed(a, k, c, now, now)...)
			}
		}
		re.evaluation = rs.evaluate(a, re.device, c.solved, now)
	}
	re.failures = rs.failures(a)
	return re
}

// unit returns the unit, in a state of kind k, of an attempt pending since at.
func (c *call) unit(k kind, at int64, device bool) unit {
	if k == byIP {
		return unit{at: at, pending: true, name: c.name, owes: !device && c.keys[byPair] != ""}
	}
	return unit{at: at, pending: true}
}

// failed counts the failure of an attempt that was pending since at.
func (rs *ruleSet) failed(a *attemptState, k kind, c *call, at, now int64) []penalty {
	u, s := c.unit(k, at, true), a.of[k]
	u.pending = false
	s.units = append(s.units, u)
	penalties := rs.fail(k, s, now)
	if k == byPair {
		rs.remember(a, now)
	}
	return penalties
}

// settle records in the states how the attempt at c.at ended.
func (rs *ruleSet) settle(a *attemptState, c *call, now int64) reply {
	re := reply{at: now}
	late := now >= c.at+settleWithin
	if late && c.result != results[Failure] {
		re.outcome = settledLate
		return re
	}
	if re.penalties = rs.age(a, now); late { // it has already been turned into a failure
		return re
	}
	success := c.result == results[Success]
	for k, s := range a.of {
		k := kind(k)
		switch {
		case s == nil:
		case success && (k == byPair || k == byDevice && c.device): // a revoked device stays revoked
			*s = state{}
		case !counts(c.device, k):
		default:
			own := c.unit(k, c.at, c.device)
			i := slices.Index(s.units, own)
			if i >= 0 {
				s.units = slices.Delete(s.units, i, i+1)
			}
			if c.result == results[Failure] {
				re.penalties = append(re.penalties, rs.failed(a, k, c, c.at, now)...)
			}
			if success {
				rs.endStreaks(k, s)
			}
		}
	}
	return re
}

// endStreaks drops the counts of consecutive failures, which a success ends.
func (rs *ruleSet) endStreaks(k kind, s *state) {
	for i := range rs.rules {
		if r := &rs.rules[i]; r.kind == k && r.Consecutive {
			for j, m := range s.data {
				if m.rule == r.id {
					s.data = append(s.data[:j], s.data[j+1:]...)
					break
				}
			}
		}
	}
}
