package waitingroom

import (
	"math/rand/v2"
	"time"

	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// State is the state of a place.
type State string

// The states. StateDone, StateLapsed, StateLeft, StateTurnedAway and StateBarred are final; after StateLapsed and StateLeft, and in a room
// without a sale after StateDone, one may join again, at the end.
const (
	StateGathering  State = "gathering"
	StateWaiting    State = "waiting"
	StateTurn       State = "turn"
	StateAdmitted   State = "admitted"
	StateDone       State = "done"
	StateLapsed     State = "lapsed"
	StateLeft       State = "left"
	StateTurnedAway State = "turned_away"
	StateBarred     State = "barred"
)

// Final reports whether the state cannot change any more.
func (s State) Final() bool {
	switch s {
	case StateDone, StateLapsed, StateLeft, StateTurnedAway, StateBarred:
		return true
	}
	return false
}

// Outlook is what a waiting visitor may expect.
type Outlook string

// The outlooks of a room with stock. In a room without, those who wait have OutlookLikely.
const (
	OutlookCertain  Outlook = "certain" // there are units for everybody in front, and for this place
	OutlookLikely   Outlook = "likely"
	OutlookUnlikely Outlook = "unlikely"
	OutlookReturns  Outlook = "waiting_for_returns" // everything is taken, and units that come back go to the next
	OutlookNone     Outlook = "none"
)

// Place is a place as its visitor may see it.
type Place struct {
	Room      string
	State     State
	Number    int64 // the one that joining gave, from 1
	Position  int64 // in its lane, from 1; 0: not known before the draw
	Ahead     int64 // places of the lane in front that have not had their turn, without those given up before the draw
	Outlook   Outlook
	ETA       *ETA          // nil: not known
	PollAfter time.Duration // 0: nothing will change
	Quantity  int
	Lane      string // empty in a room without lanes
	User      string // empty: unknown, the place is its token's
	JoinedAt  time.Time
	TurnUntil time.Time // while State is turn

	PassUntil time.Time // while State is admitted

	AdmittedAt, DoneAt, LeftAt time.Time // zero: it did not happen

	OrderID string // when State is done
	Reason  string // why the place is barred
	Token   string // finds the place without the user's name; see Visitor
	Steps   []Step // of a place of Places with a user; nil: not asked for
	Created bool   // from Join: the visitor had no place before
	Receipt string // from Join, of a place that will be drawn or was: a signed statement of its number
}

// ETA is the range of the time until the turn.
type ETA struct{ Min, Max time.Duration }

// state returns the state of p, whose position is known unless it is negative, at now.
func (r *room) state(p *store.Place, position, now int64) State {
	rt := r.roomTime(now)
	switch {
	case p.Barred != "":
		return StateBarred
	case p.DoneAt > 0:
		return StateDone
	case p.LeftAt > 0:
		return StateLeft
	case p.AdmittedAt > 0 && rt < p.PassRT:
		return StateAdmitted
	case p.AdmittedAt > 0:
		return StateLapsed
	case p.TurnRT > 0 && r.ended() == "" && rt < p.UntilRT:
		return StateTurn
	case p.TurnRT > 0:
		return StateLapsed
	case r.ended() != "":
		return StateTurnedAway
	case position < 0:
		return StateGathering
	}
	return StateWaiting
}

// placeOf returns p as its visitor sees it.
func (v *view) placeOf(p *store.Place, now int64) Place {
	r, lane := &v.room, v.laneOf(p)
	position, served := int64(-1), v.servedFor(p)
	if r.ordered() { // before, a copy that does not know of a moved start could tell a position that is drawn later
		position = v.position(lane, p.LaneNumber)
	}
	if p.Position >= 0 {
		position = p.Position
	}
	t := Place{
		Room: r.def.Room, State: r.state(p, position, now), Number: p.Number, Position: position + 1, Quantity: p.Quantity, Lane: p.Lane,
		User:     p.User,
		JoinedAt: instant(p.JoinedAt), AdmittedAt: instant(p.AdmittedAt), DoneAt: instant(p.DoneAt), LeftAt: instant(p.LeftAt),
		OrderID: p.OrderID, Reason: p.Barred,
	}
	// As of the copy, in which room time stands still only if it truly did. It may be old, and since then ticks may have moved room time on:
	// the reported deadline must not be later than the real one.
	rt := r.roomTime(v.room.saved.Now)
	left := func(until int64) time.Time { return time.UnixMilli(v.room.saved.Now + until - rt).UTC() }
	switch t.State {
	case StateGathering:
		t.Outlook, t.PollAfter = v.outlook(lane, max(0, v.waiting(lane)-1)), r.pollUntilDrawn(now)
	case StateWaiting:
		t.Ahead = v.ahead(lane, position, served)
		t.Outlook = v.outlook(lane, t.Ahead)
		t.ETA = v.eta(lane, t.Ahead, max(0, position-served))
		t.PollAfter = pollWaiting(t.Ahead, t.ETA)
	case StateTurn:
		t.Outlook = r.promise()
		t.TurnUntil, t.PollAfter = left(p.UntilRT), jitter(PollNear)
	case StateAdmitted:
		t.Outlook = r.promise()
		t.PassUntil, t.PollAfter = left(p.PassRT), jitter(5*time.Second)
	case StateDone:
		t.Outlook = OutlookCertain
	default:
		t.Outlook = OutlookNone
	}
	return t
}

// instant returns a time that the database holds; 0 is none.
func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// How often a place is to be read: PollNear shortly before its turn, and PollFar at most.
const (
	PollNear = time.Second
	PollFar  = 20 * time.Second
)

func pollWaiting(ahead int64, eta *ETA) time.Duration {
	if eta != nil {
		return jitter(min(max(eta.Min/4, PollNear), PollFar))
	}
	return jitter(min(max(time.Duration(ahead)*20*time.Millisecond, PollNear), PollFar))
}

// pollBefore spreads the first reads after the start.
func pollBefore(start time.Duration) time.Duration {
	return jitter(min(max(start/2, PollNear), PollFar))
}

// jitter spreads d over 0.8 to 1.2 of it, so that clients that learned something together do not return together.
func jitter(d time.Duration) time.Duration { return d*4/5 + rand.N(d*2/5+1) }
