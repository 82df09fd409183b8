package rehearseroom_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// W14, P10: a turn ends when it was said, wherever the others are: a claim at 0.95 of the window is admitted, one at 1.05 of it has lapsed. A
// shorter window is for later turns.
func TestAClaimWindow(t *testing.T) {
	t.Parallel()
	h := prepare(t)
	h.ownClock(time.Now())
	h.startAPI()
	h.startAPI()
	h.room(`"capacity":3,"claim_ms":20000`)
	h.join("ann", "bob", "cem", "dan", "eve")
	h.later(step)
	given := h.at
	h.seenByAll()
	for _, user := range []string{"ann", "bob", "cem"} {
		if p := h.look(user); p.State != "turn" || p.TurnUntil.Sub(given.Add(20*time.Second)).Abs() > time.Second {
			t.Errorf("%s is %+v, the turn was given at %v", user, p, given)
		}
	}
	h.operate(http.StatusOK, "PUT", room, fmt.Sprintf(`{"mode":"fifo","starts_at":%q,"capacity":3,"claim_ms":1000,"pass_ms":1000}`, h.started))
	h.later(19 * time.Second)
	if status := h.claim("ann", 1); status != http.StatusOK {
		t.Errorf("a claim at 0.95 of the window: %d", status)
	}
	h.later(2 * time.Second)
	h.seenByAll()
	if status, p := h.claim("bob", 1), h.look("bob"); status != http.StatusGone || p.State != "lapsed" {
		t.Errorf("a claim at 1.05 of the window: %d, %+v", status, p)
	}
	if p := h.look("dan"); p.State == "waiting" {
		t.Errorf("the turn of those who said nothing was given to nobody: %+v", p)
	}
}

// W15: a room that is held for three windows lets nobody lapse, and keeps the order. After it everybody has the time that was left.
func TestAHeldRoom(t *testing.T) {
	t.Parallel()
	h := prepare(t)
	h.ownClock(time.Now())
	h.startAPI()
	h.startAPI()
	h.room(`"capacity":2,"claim_ms":10000,"pass_ms":10000`)
	users := people(6)
	h.join(users...)
	h.later(step)
	if status := h.claim(users[0], 0); status != http.StatusOK {
		t.Fatal(status)
	}
	h.later(4 * time.Second)
	type standing struct {
		State    string
		Position int64
	}
	all := func() (list []standing) {
		t.Helper()
		h.seenByAll()
		for _, user := range users {
			p := h.look(user)
			list = append(list, standing{p.State, p.Position})
		}
		return list
	}
	h.operate(http.StatusOK, "POST", room+"/hold", "")
	before := all()
	if diff := cmp.Diff([]standing{{"admitted", 1}, {"turn", 2}, {"waiting", 3}}, before[:3]); diff != "" {
		t.Fatal(diff)
	}
	h.later(30 * time.Second)
	if diff := cmp.Diff(before, all()); diff != "" {
		t.Errorf("while held: %s", diff)
	}
	if status := h.claim(users[1], 1); status != http.StatusServiceUnavailable {
		t.Errorf("a claim while held: %d", status)
	}
	h.operate(http.StatusOK, "POST", room+"/resume", "")
	h.later(4 * time.Second) // 8 of 10 seconds
	if status := h.claim(users[1], 1); status != http.StatusOK {
		t.Errorf("a claim with time left: %d", status)
	}
	h.later(4 * time.Second) // the first one's pass, and not the second one's, is over
	if diff := cmp.Diff([]standing{{"lapsed", 1}, {"admitted", 2}, {"turn", 3}, {"waiting", 4}}, all()[:4]); diff != "" {
		t.Errorf("afterwards: %s", diff)
	}
}
