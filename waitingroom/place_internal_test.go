package waitingroom

import (
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/waitingroom/draw"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// The state of a place is computed from what the database holds, the position, and the room's time.
func TestPlaceStates(t *testing.T) {
	const now = 10_000_000
	open, ended := room{saved: store.Saved{TickedAt: now}}, room{saved: store.Saved{TickedAt: now, Ended: string(PhaseClosed)}}
	for what, tt := range map[string]struct {
		room     room
		place    store.Place
		position int64
		want     State
	}{
		"before the draw":               {open, store.Place{}, -1, StateGathering},
		"waiting":                       {open, store.Place{}, 0, StateWaiting},
		"waiting, and it is over":       {ended, store.Place{}, 0, StateTurnedAway},
		"gathering, and it is over":     {ended, store.Place{}, -1, StateTurnedAway},
		"a turn":                        {open, store.Place{TurnRT: 1, UntilRT: now + 1}, 0, StateTurn},
		"in its last moment":            {open, store.Place{TurnRT: 1, UntilRT: now}, 0, StateLapsed},
		"a turn, and it is over":        {ended, store.Place{TurnRT: 1, UntilRT: now + 1}, 0, StateLapsed},
		"admitted":                      {open, store.Place{TurnRT: 1, UntilRT: 2, AdmittedAt: 3, PassRT: now + 1}, 0, StateAdmitted},
		"admitted, and it is over":      {ended, store.Place{TurnRT: 1, UntilRT: 2, AdmittedAt: 3, PassRT: now + 1}, 0, StateAdmitted},
		"the pass is over":              {open, store.Place{TurnRT: 1, UntilRT: 2, AdmittedAt: 3, PassRT: now}, 0, StateLapsed},
		"done":                          {open, store.Place{TurnRT: 1, AdmittedAt: 3, PassRT: 4, DoneAt: 5}, 0, StateDone},
		"left":                          {open, store.Place{LeftAt: 5}, 0, StateLeft},
		"left while admitted":           {open, store.Place{TurnRT: 1, AdmittedAt: 3, PassRT: now + 1, LeftAt: 5}, 0, StateLeft},
		"done in the moment of leaving": {open, store.Place{DoneAt: 5, LeftAt: 6}, 0, StateDone},
		"barred":                        {open, store.Place{Barred: "banned"}, 0, StateBarred},
		"barred, and it is over":        {ended, store.Place{Barred: "banned", LeftAt: 1}, 0, StateBarred},
		"held, long after the window":   {room{saved: store.Saved{TickedAt: now, StoppedAt: 5}}, store.Place{TurnRT: 1, UntilRT: 6}, 0, StateTurn},
		"after a hold":                  {room{saved: store.Saved{TickedAt: now, StoppedMS: now - 5}}, store.Place{TurnRT: 1, UntilRT: 6}, 0, StateTurn},
		"while nobody ticks":            {room{saved: store.Saved{TickedAt: now - time.Hour.Milliseconds()}}, store.Place{TurnRT: 1, UntilRT: now - 10_000}, 0, StateTurn},
	} {
		if got := tt.room.state(&tt.place, tt.position, now); got != tt.want {
			t.Errorf("%s: %s, want %s", what, got, tt.want)
		}
	}
}

// Who gives up places again and again waits for twice as long each time.
func TestRejoinAt(t *testing.T) {
	for again, want := range map[int]time.Duration{0: 0, 1: 10 * time.Second, 2: 20 * time.Second, 6: 320 * time.Second, 7: 10 * time.Minute, 1000: 10 * time.Minute} {
		p := store.Place{LeftAt: 5, Again: again}
		if got := time.Duration(rejoinAt(&p)-5) * time.Millisecond; got != want {
			t.Errorf("after %d: %v, want %v", again, got, want)
		}
	}
}

// W14: a process whose copy is old does not know whether somebody has ticked since, so that room time went on. It tells no later end of a turn.
func TestAnOldCopyPromisesNoMore(t *testing.T) {
	const read, untilRT = 10_000_000, 10_002_000
	p := &store.Place{LaneNumber: 1, TurnRT: 1, UntilRT: untilRT}
	for what, r := range map[string]room{
		"no tick for a while": {saved: store.Saved{TickedAt: read - staleAfter.Milliseconds() + 100}},
		"held":                {saved: store.Saved{TickedAt: read, StoppedAt: read}},
	} {
		r.saved.Now, r.saved.Lanes = read, []store.Lane{{}}
		v := &view{room: r, mu: &sync.Mutex{}, orders: make([]draw.Order, 1), early: make([][]int64, 1)}
		for _, age := range []int64{0, 100, 1500} {
			if got := v.placeOf(p, read+age).TurnUntil.UnixMilli(); got != untilRT {
				t.Errorf("%s: a copy that is %d ms old tells the end %d ms late", what, age, got-untilRT)
			}
		}
	}
}
