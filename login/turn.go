package login

import "slices"

// An op is what a store is asked to do. The numbers stand in the script as well.
type op byte

const (
	opReserve op = iota // count an attempt that is let in
	opCheck             // only look
	opReport            // count a failure
	opSettle            // say how an attempt ended
)

// Result is how an attempt ended. Closed set.
type Result string

// The results.
const (
	Success Result = "success"
	Failure Result = "failure"
	Error   Result = "error" // nobody can tell, or nobody was asked: the attempt is not counted
)

// results are the letters of the script.
var results = map[Result]byte{Success: 's', Failure: 'f', Error: 'e'}

// A call is one question to a store.
type call struct {
	ladder *ladder
	op     op
	keys   [kinds]string // of the states; empty: not counted
	name   nameTag
	device bool   // settle: the attempt was in the device's lane
	solved bool   // reserve, check, report: the caller has solved a challenge
	at     int64  // settle: when the attempt was reserved
	result byte   // settle
	record string // key of the answer to this question, which check only looks for; empty: it is not kept
}

// An outcome is how a settlement went. The numbers stand in the script as well.
type outcome byte

const (
	settled outcome = iota
	settledOther
	settledLate
)

// A reply is a store's answer.
type reply struct {
	verdict

	at       int64 // when the attempt was decided
	device   bool  // in the device's lane
	known    bool  // from a record: it was asked before
	failures int64
	outcome  outcome // of a settlement
	trips    []trip
}

// attempt is reserve, check and report on states that are the caller's to keep.
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

// unit is what an attempt under way since at is in a state.
func (c *call) unit(k kind, at int64, device bool) unit {
	if k == byIP {
		return unit{at: at, pending: true, name: c.name, owes: !device && c.keys[byPair] != ""}
	}
	return unit{at: at, pending: true}
}

// failed counts a failure of an attempt that was under way since at.
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

// settle says to states how the attempt at c.at ended.
func (l *ladder) settle(b *board, c *call, now int64) reply {
	re := reply{at: now}
	late := now >= c.at+settleWithin
	if late && c.result != results[Failure] {
		re.outcome = settledLate
		return re
	}
	if re.trips = l.age(b, now); late { // it has failed by itself
		return re
	}
	success := c.result == results[Success]
	for k, s := range b.of {
		k := kind(k)
		switch {
		case s == nil:
		case success && (k == byPair || k == byDevice && c.device): // one that was revoked stays it
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

// endStreaks forgets failures in a row, of which a success is the end.
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
