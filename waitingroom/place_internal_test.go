package waitingroom

import (
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/waitingroom/draw"
)

// The state of a place is computed from what the database holds, the position, and the room's time.
func TestPlaceStates(t *testing.T) {
	const now = 10_000_000
	open, ended := room{tickedAt: now}, room{tickedAt: now, ended: PhaseClosed}
	for what, tt := range map[string]struct {
		room     room
		place    place
		position int64
		want     State
	}{
		"before the draw":               {open, place{}, -1, StateGathering},
		"waiting":                       {open, place{}, 0, StateWaiting},
		"waiting, and it is over":       {ended, place{}, 0, StateTurnedAway},
		"gathering, and it is over":     {ended, place{}, -1, StateTurnedAway},
		"a turn":                        {open, place{turnRT: 1, untilRT: now + 1}, 0, StateTurn},
		"in its last moment":            {open, place{turnRT: 1, untilRT: now}, 0, StateLapsed},
		"a turn, and it is over":        {ended, place{turnRT: 1, untilRT: now + 1}, 0, StateLapsed},
		"admitted":                      {open, place{turnRT: 1, untilRT: 2, admittedAt: 3, passRT: now + 1}, 0, StateAdmitted},
		"admitted, and it is over":      {ended, place{turnRT: 1, untilRT: 2, admittedAt: 3, passRT: now + 1}, 0, StateAdmitted},
		"the pass is over":              {open, place{turnRT: 1, untilRT: 2, admittedAt: 3, passRT: now}, 0, StateLapsed},
		"done":                          {open, place{turnRT: 1, admittedAt: 3, passRT: 4, doneAt: 5}, 0, StateDone},
		"left":                          {open, place{leftAt: 5}, 0, StateLeft},
		"left while admitted":           {open, place{turnRT: 1, admittedAt: 3, passRT: now + 1, leftAt: 5}, 0, StateLeft},
		"done in the moment of leaving": {open, place{doneAt: 5, leftAt: 6}, 0, StateDone},
		"barred":                        {open, place{barred: "banned"}, 0, StateBarred},
		"barred, and it is over":        {ended, place{barred: "banned", leftAt: 1}, 0, StateBarred},
		"held, long after the window":   {room{tickedAt: now, stoppedAt: 5}, place{turnRT: 1, untilRT: 6}, 0, StateTurn},
		"after a hold":                  {room{tickedAt: now, stoppedMS: now - 5}, place{turnRT: 1, untilRT: 6}, 0, StateTurn},
		"while nobody ticks":            {room{tickedAt: now - time.Hour.Milliseconds()}, place{turnRT: 1, untilRT: now - 10_000}, 0, StateTurn},
	} {
		if got := tt.place.state(&tt.room, tt.position, now); got != tt.want {
			t.Errorf("%s: %s, want %s", what, got, tt.want)
		}
	}
}

// Who gives up places again and again waits for twice as long each time.
func TestRejoinAt(t *testing.T) {
	for again, want := range map[int]time.Duration{0: 0, 1: 10 * time.Second, 2: 20 * time.Second, 6: 320 * time.Second, 7: 10 * time.Minute, 1000: 10 * time.Minute} {
		p := place{leftAt: 5, again: again}
		if got := time.Duration(p.rejoinAt()-5) * time.Millisecond; got != want {
			t.Errorf("after %d: %v, want %v", again, got, want)
		}
	}
}

// W14: a process whose copy is old does not know whether somebody has ticked since, so that room time went on. It tells no later end of a turn.
func TestAnOldCopyPromisesNoMore(t *testing.T) {
	const read, untilRT = 10_000_000, 10_002_000
	p := &place{laneNumber: 1, turnRT: 1, untilRT: untilRT}
	for what, r := range map[string]room{
		"no tick for a while": {tickedAt: read - staleAfter.Milliseconds() + 100},
		"held":                {tickedAt: read, stoppedAt: read},
	} {
		r.now, r.lanes = read, []lane{{}}
		v := &view{room: r, mu: &sync.Mutex{}, orders: make([]draw.Order, 1), early: make([][]int64, 1)}
		for _, age := range []int64{0, 100, 1500} {
			if got := v.placeOf(p, read+age).TurnUntil.UnixMilli(); got != untilRT {
				t.Errorf("%s: a copy that is %d ms old tells the end %d ms late", what, age, got-untilRT)
			}
		}
	}
}
