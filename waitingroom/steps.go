package waitingroom

import (
	"cmp"
	"slices"
	"time"

	"github.com/tidegate/tidegate/waitingroom/internal/store"
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
func (r *room) history(p *store.Place, acts []store.Act) []Step {
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
	var closed store.Act // the zero act: the room was not closed
	for _, a := range acts {
		if a.Act == "close" && closed.At == 0 && r.ended() == PhaseClosed {
			closed = a
		}
	}
	if r.ended() == PhaseClosed && r.saved.Sale == SaleEnded && closed.At == 0 {
		closed = store.Act{At: r.saved.EndedAt, Reason: "the sale is over"}
	}
	add(p.JoinedAt, stepJoined, "", "")
	if r.drawn() && p.Number <= r.saved.NDrawn {
		add(r.saved.DrawnAt, stepDrawn, "", "the draw at the start")
	}
	add(p.TurnAt, stepTurn, "", "the position was reached")
	add(p.AdmittedAt, stepAdmitted, "", "the turn was claimed")
	switch {
	case p.DoneAt > 0 && p.OrderID != "":
		final(p.DoneAt, stepDone, "", "order "+p.OrderID)
	case p.DoneAt > 0:
		final(p.DoneAt, stepDone, "", "the visit was ended")
	case p.LeftAt > 0:
		final(p.LeftAt, stepLeft, "", "the place was given up")
	case p.Barred != "":
		final(p.ChangedAt, stepBarred, p.BarredBy, p.Barred)
	case p.AdmittedAt == 0 && closed.At > 0 && (p.LapsedAt == 0 || closed.At < p.LapsedAt):
		what := stepTurnedAway
		if p.TurnRT > 0 {
			what = stepLapsed
		}
		final(closed.At, what, closed.Actor, cmp.Or(closed.Reason, "the room was closed"))
	case p.LapsedAt > 0 && p.AdmittedAt > 0:
		final(p.LapsedAt, stepLapsed, "", "the pass was not used in time")
	case p.LapsedAt > 0:
		final(p.LapsedAt, stepLapsed, "", "the turn was not claimed in time")
	case p.TurnRT == 0 && r.ended() == PhaseExhausted:
		final(r.saved.EndedAt, stepTurnedAway, "", "everything is sold")
	}
	if p.Replaced {
		add(p.ChangedAt, stepReplaced, "", "the visitor joined again")
	}
	for _, a := range acts {
		switch {
		case a.At < p.JoinedAt || end > 0 && a.At >= end:
		case a.Act == "hold":
			add(a.At, stepHeld, a.Actor, a.Reason)
		case a.Act == "resume":
			add(a.At, stepResumed, a.Actor, a.Reason)
		}
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return a.At.Compare(b.At) })
	return steps
}
