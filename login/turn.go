package login

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

// attempt is reserve, check and report on states that are the caller's to keep. A nil state is not counted.
func (l *ladder) attempt(states *[kinds]*state, c *call, now int64) reply {
	re := reply{at: now}
	for k, s := range states {
		if s != nil {
			re.trips = append(re.trips, l.age(kind(k), s, now)...)
		}
	}
	re.device = states[byDevice] != nil && !l.revoked(states[byDevice], now)
	re.verdict = l.judge(states, re.device, c.solved, now)
	count := c.op == opReserve && re.action == allow || c.op == opReport && re.action != deny
	for k, s := range states {
		if k := kind(k); count && s != nil && in(re.device, k) {
			re.trips = append(re.trips, l.add(k, s, c, now)...)
		}
	}
	if c.op == opReport {
		re.verdict = l.judge(states, re.device, c.solved, now)
	}
	re.failures = l.failures(states)
	return re
}

// add counts an attempt, or with report a failure.
func (l *ladder) add(k kind, s *state, c *call, now int64) []trip {
	u := unit{at: now, pending: c.op == opReserve}
	if k == byIP {
		u.name = c.name
	}
	s.units = append(s.units, u)
	if u.pending {
		return nil
	}
	return l.fail(k, s, now)
}

// settle says to states how the attempt at c.at ended.
func (l *ladder) settle(states *[kinds]*state, c *call, now int64) reply {
	re := reply{at: now}
	late := now >= c.at+settleWithin
	if late && c.result != results[Failure] {
		re.outcome = settledLate
		return re
	}
	for k, s := range states {
		if s == nil {
			continue
		}
		k := kind(k)
		re.trips = append(re.trips, l.age(k, s, now)...)
		switch counts := in(c.device, k); {
		case late:
		case c.result == results[Success] && (k == byPair || k == byDevice && c.device): // one that was revoked stays it
			*s = state{}
		case !counts:
		case c.result == results[Failure]:
			l.own(k, s, c, func(i int) { s.units[i].pending = false }, func(u unit) { s.units = append(s.units, u) })
			re.trips = append(re.trips, l.fail(k, s, now)...)
		default:
			l.own(k, s, c, func(i int) { s.units = append(s.units[:i], s.units[i+1:]...) }, func(unit) {})
			if c.result == results[Success] {
				l.endStreaks(k, s)
			}
		}
	}
	return re
}

// own finds the unit of the attempt that c settles, or says that it has gone: a store may have forgotten it.
func (l *ladder) own(k kind, s *state, c *call, found func(i int), gone func(unit)) {
	own := unit{at: c.at, pending: true}
	if k == byIP {
		own.name = c.name
	}
	for i, u := range s.units {
		if u == own {
			found(i)
			return
		}
	}
	own.pending = false
	gone(own)
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
