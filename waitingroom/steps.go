package waitingroom

import (
	"cmp"
	"slices"
	"time"
)

// Step is something that happened to a place, or to its room meanwhile.
type Step struct {
	At    time.Time
	What  string // joined, drawn, turn, admitted, done, lapsed, left, replaced, turned_away or barred; of the room: held or resumed
	By    string // the operator or the ban; empty: the visitor, the clock, or unknown
	Cause string // may be empty
}

// What steps say. stepHeld and stepResumed are of the room.
const (
	stepJoined     = "joined"
	stepDrawn      = "drawn"
	stepTurn       = "turn"
	stepAdmitted   = "admitted"
	stepDone       = "done"
	stepLapsed     = "lapsed"
	stepLeft       = "left"
	stepReplaced   = "replaced"
	stepTurnedAway = "turned_away"
	stepBarred     = "barred"
	stepHeld       = "held"
	stepResumed    = "resumed"
)

// history returns what happened to a place, in order.
func (r *room) history(p *place, acts []act) []Step {
	var steps []Step
	end := int64(0) // of the place
	add := func(at int64, what, by, cause string) {
		if at > 0 {
			steps = append(steps, Step{instant(at), what, by, cause})
		}
	}
	final := func(at int64, what, by, cause string) {
		add(at, what, by, cause)
		end = max(end, at)
	}
	var closed act // the zero act: the room was not closed
	for _, a := range acts {
		if a.act == "close" && closed.at == 0 && r.ended == PhaseClosed {
			closed = a
		}
	}
	if r.ended == PhaseClosed && r.sale == SaleEnded && closed.at == 0 {
		closed = act{at: r.endedAt, reason: "the sale is over"}
	}
	add(p.joinedAt, stepJoined, "", "")
	if r.drawn() && p.number <= r.nDrawn {
		add(r.drawnAt, stepDrawn, "", "the draw at the start")
	}
	add(p.turnAt, stepTurn, "", "the position was reached")
	add(p.admittedAt, stepAdmitted, "", "the turn was claimed")
	switch {
	case p.doneAt > 0 && p.orderID != "":
		final(p.doneAt, stepDone, "", "order "+p.orderID)
	case p.doneAt > 0:
		final(p.doneAt, stepDone, "", "the visit was ended")
	case p.leftAt > 0:
		final(p.leftAt, stepLeft, "", "the place was given up")
	case p.barred != "":
		final(p.changedAt, stepBarred, p.barredBy, p.barred)
	case p.admittedAt == 0 && closed.at > 0 && (p.lapsedAt == 0 || closed.at < p.lapsedAt):
		what := stepTurnedAway
		if p.turnRT > 0 {
			what = stepLapsed
		}
		final(closed.at, what, closed.actor, cmp.Or(closed.reason, "the room was closed"))
	case p.lapsedAt > 0 && p.admittedAt > 0:
		final(p.lapsedAt, stepLapsed, "", "the pass was not used in time")
	case p.lapsedAt > 0:
		final(p.lapsedAt, stepLapsed, "", "the turn was not claimed in time")
	case p.turnRT == 0 && r.ended == PhaseExhausted:
		final(r.endedAt, stepTurnedAway, "", "everything is sold")
	}
	if p.replaced {
		add(p.changedAt, stepReplaced, "", "the visitor joined again")
	}
	for _, a := range acts {
		switch {
		case a.at < p.joinedAt || end > 0 && a.at >= end:
		case a.act == "hold":
			add(a.at, stepHeld, a.actor, a.reason)
		case a.act == "resume":
			add(a.at, stepResumed, a.actor, a.reason)
		}
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return a.At.Compare(b.At) })
	return steps
}
