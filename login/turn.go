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
	ladder *ladder
	op     op
	keys   [kinds]string // of the states; empty: not counted
	name   nameTag
	device bool   // settle: the attempt was in the device's lane
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
	verdict

	at       int64 // when the attempt was decided
	device   bool  // in the device's lane
	known    bool  // from a record: the call was repeated
	failures int64
	outcome  outcome // of a settlement
	trips    []trip
}

// attempt executes reserve, check and report on b. The caller stores the changed states.
func (l *ladder) attempt(b *board, c *call, now int64) reply {
	re := reply{at: now, trips: l.age(b, now)}
	re.device = b.of[byDevice] != nil && !l.revoked(b, now)
	re.verdict = l.judge(b, re.device, c.solved, now)
	switch {
	case c.op == opReserve && re.action == allow:
		for k, s := range b.of {
			if k := kind(k); s != nil && k != byPair && in(re.device, k) {
				s.units = append(s.units, c.unit(k, now, re.device))
			}
		}
	case c.op == opReport && re.action != deny:
		for k, s := range b.of {
			if k := kind(k); s != nil && in(re.device, k) {
				re.trips = append(re.trips, l.failed(b, k, c, now, now)...)
			}
		}
		re.verdict = l.judge(b, re.device, c.solved, now)
	}
	re.failures = l.failures(b)
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
func (l *ladder) failed(b *board, k kind, c *call, at, now int64) []trip {
	u, s := c.unit(k, at, true), b.of[k]
	u.pending = false
	s.units = append(s.units, u)
	trips := l.fail(k, s, now)
	if k == byPair {
		l.remember(b, now)
	}
	return trips
}

// settle records in the states how the attempt at c.at ended.
func (l *ladder) settle(b *board, c *call, now int64) reply {
	re := reply{at: now}
	late := now >= c.at+settleWithin
	if late && c.result != results[Failure] {
		re.outcome = settledLate
		return re
	}
	if re.trips = l.age(b, now); late { // it has already been turned into a failure
		return re
	}
	success := c.result == results[Success]
	for k, s := range b.of {
		k := kind(k)
		switch {
		case s == nil:
		case success && (k == byPair || k == byDevice && c.device): // a revoked device stays revoked
			*s = state{}
		case !in(c.device, k):
		default:
			own := c.unit(k, c.at, c.device)
			i := slices.Index(s.units, own)
			if i >= 0 {
				s.units = slices.Delete(s.units, i, i+1)
			}
			if c.result == results[Failure] {
				re.trips = append(re.trips, l.failed(b, k, c, c.at, now)...)
			}
			if success {
				l.endStreaks(k, s)
			}
		}
	}
	return re
}

// endStreaks drops the counts of consecutive failures, which a success ends.
func (l *ladder) endStreaks(k kind, s *state) {
	for i := range l.rules {
		if r := &l.rules[i]; r.kind == k && r.Consecutive {
			for j, m := range s.marks {
				if m.rule == r.id {
					s.marks = append(s.marks[:j], s.marks[j+1:]...)
					break
				}
			}
		}
	}
}
