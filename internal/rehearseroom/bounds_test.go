package rehearseroom_test

import (
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// W10, W13: at a rate of 60 a minute, and with every other head silent, no sixty seconds have more than 60 claims, and the last ones have nine
// tenths of that.
func TestClaimsOfAnyMinute(t *testing.T) {
	t.Parallel()
	const rate = 60
	h := prepare(t)
	h.ownClock(time.Now())
	h.startAPI()
	h.startAPI()
	h.room(`"rate_per_min":60,"claim_ms":20000`)
	var loud []string
	for i, user := range people(440) {
		h.join(user)
		if i%2 == 0 {
			loud = append(loud, user)
		}
	}
	var claims []time.Time
	for end := h.at.Add(3 * time.Minute); h.at.Before(end); {
		h.later(step)
		claimed := make([]bool, min(len(loud), 12)) // who is behind has no turn yet: more than five times the rate
		var clicks sync.WaitGroup
		for i := range claimed {
			clicks.Go(func() {
				switch status := h.claim(loud[i], i); status {
				case http.StatusOK:
					claimed[i] = true
				case http.StatusConflict, http.StatusServiceUnavailable: // not yet; the rate is reached
				default:
					t.Errorf("%s: %d", loud[i], status)
				}
			})
		}
		clicks.Wait()
		var rest []string
		for i, user := range loud {
			if i < len(claimed) && claimed[i] {
				claims = append(claims, h.at)
			} else {
				rest = append(rest, user)
			}
		}
		loud = rest
	}
	last := 0
	for i, from := range claims {
		n := 0
		for _, at := range claims[i:] {
			if at.Before(from.Add(time.Minute)) {
				n++
			}
		}
		if n > rate {
			t.Fatalf("%d claims in the minute from %v", n, from)
		}
		if from.After(h.at.Add(-time.Minute)) {
			last++
		}
	}
	if last < rate*9/10 {
		t.Errorf("%d claims in the last minute at a rate of %d", last, rate)
	}
}

// W11, P2, P21: over three processes, at no time more visitors are admitted than the capacity, and as many as that at some time.
func TestCapacityOfThreeProcesses(t *testing.T) {
	t.Parallel()
	const capacity = 5
	h := install(t, 3)
	h.room(`"capacity":5`)
	var inside, most atomic.Int64
	var crowd sync.WaitGroup
	for i, user := range people(60) {
		crowd.Go(func() {
			h.join(user)
			servetest.Until(t, http.StatusOK, func() servetest.Answer {
				h.as(user, i, "GET", place+"?wait_ms=5000&while=waiting", "")
				return h.as(user, i, "POST", place+"/claim", "")
			})
			// Counted after the answer, and no more from before the visitor leaves: never more than the room counts.
			n := inside.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			h.as(user, i+1, "GET", place+"?wait_ms=500&while=admitted", "") // stays for a while
			inside.Add(-1)
			if a := h.as(user, i+2, "DELETE", place, ""); a.Status != http.StatusNoContent {
				t.Errorf("%s leaves: %v", user, a)
			}
		})
	}
	crowd.Wait()
	if n := most.Load(); n > capacity || n < 2 {
		t.Errorf("%d were admitted at a time, of at most %d", n, capacity)
	}
	h.verify()
}

// W12, P3, P4: a minute in which nobody comes saves up no turns for the crowd after it. The cursor never goes back, and stays at the last
// place. Nobody can set it back.
func TestAQuietRoomSavesNothing(t *testing.T) {
	t.Parallel()
	h := prepare(t)
	h.ownClock(time.Now())
	h.startAPI()
	h.startAPI()
	h.room(`"rate_per_min":600`)
	h.later(time.Minute)
	users := people(100)
	h.join(users...)
	h.operate(http.StatusUnprocessableEntity, "POST", room+"/advance", `{"by":-50}`)
	served := func() int64 {
		t.Helper()
		h.seenByAll()
		var doc struct{ Served int64 }
		if err := json.Unmarshal(servetest.Call("GET", h.apis[1].URL("public")+room, "").Body, &doc); err != nil {
			t.Fatal(err)
		}
		return doc.Served
	}
	before := int64(0)
	for second := int64(2); second <= 20; second += 2 {
		h.later(step)
		now := served()
		if now < before {
			t.Errorf("the cursor went from %d back to %d", before, now)
		}
		if most := 10*second + 1; now > most { // what the rate gives in this time
			t.Errorf("%d turns within %d s of the first visitor, at most %d are for that time", now, second, most)
		}
		for _, user := range users[before:now] { // turns are given for those who do not come, too
			if status := h.claim(user, 0); status != http.StatusOK {
				t.Errorf("%s: %d", user, status)
			}
		}
		before = now
	}
	if before != 100 {
		t.Errorf("the cursor is at %d of 100", before)
	}
}
