package rehearseroom_test

import (
	"net/http"
	"testing"
	"time"
)

// W21: in a room with a rate, in which half of the heads are silent, the range of the time until the turn covers the truth in four of five
// cases, at all times and for places near and far. It is null for the first twenty turns, and while the room is held.
func TestTheTimeUntilTheTurn(t *testing.T) {
	t.Parallel()
	h := prepare(t)
	h.ownClock(time.Now())
	h.startAPI()
	h.startAPI()
	h.room(`"rate_per_min":120,"claim_ms":10000`)
	users := people(400)
	h.join(users...)
	type guess struct {
		place    int
		at       time.Time
		min, max time.Duration
	}
	var guesses []guess
	var turns []time.Time // by place
	// ask reads the places that got their turn, of which every other one claims it, and some of those that wait. It returns how many of these
	// have a range.
	ask := func() (ranges, asked int) {
		t.Helper()
		h.seenByAll()
		for i := len(turns); i < len(users); i++ {
			p := h.look(users[i])
			if p.State != "waiting" {
				if turns = append(turns, h.at); i%2 == 0 {
					h.claim(users[i], i)
				}
				continue
			}
			if asked++; p.ETA != nil {
				ranges++
				guesses = append(guesses, guess{i, h.at, time.Duration(p.ETA.MinMS) * time.Millisecond, time.Duration(p.ETA.MaxMS) * time.Millisecond})
			}
			i += asked * asked // fewer far behind
		}
		return ranges, asked
	}
	for len(turns) < 20 {
		if n, _ := ask(); n > 0 {
			t.Errorf("%d ranges after %d turns", n, len(turns))
		}
		h.later(step)
	}
	held := false
	for end := h.at.Add(4 * time.Minute); len(turns) < len(users) && h.at.Before(end); h.later(step) {
		n, asked := ask()
		if held || n == 0 || len(turns) < 200 {
			continue
		}
		held = true
		h.operate(http.StatusOK, "POST", room+"/hold", "")
		if n, _ := ask(); n > 0 {
			t.Errorf("%d ranges while the room is held", n)
		}
		h.operate(http.StatusOK, "POST", room+"/resume", "")
		if n, _ := ask(); n != asked {
			t.Errorf("%d of %d ranges after the hold", n, asked)
		}
	}
	covered := 0
	for _, g := range guesses {
		if g.place >= len(turns) {
			t.Fatalf("%+v, and only %d had their turn", g, len(turns))
		}
		truth := turns[g.place].Sub(g.at)
		if g.min <= truth && truth-step <= g.max { // it was given at some time of the last step
			covered++
		}
	}
	if covered*5 < len(guesses)*4 || len(guesses) < 200 || !held {
		t.Errorf("%d of %d ranges covered the truth; held: %t", covered, len(guesses), held)
	}
}
