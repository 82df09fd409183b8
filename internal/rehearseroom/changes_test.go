package rehearseroom_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A process reads a room that another process changed at once, not when its own turn comes, which is every two seconds while no room is open.
func TestChangesAreNotified(t *testing.T) {
	t.Parallel()
	h := install(t, 2)
	opens := time.Now().Add(time.Hour).UTC()
	h.room(fmt.Sprintf(`"mode":"draw","capacity":1,"starts_at":%q,"gather_at":%q`, opens.Format(time.RFC3339), opens.Add(-time.Minute).Format(time.RFC3339)))
	const changes = 10
	began := time.Now()
	for i := range changes {
		text := fmt.Sprintf("Change %d.", i)
		h.operate(http.StatusOK, "POST", room+"/message", fmt.Sprintf(`{"message":%q}`, text))
		for !strings.Contains(string(h.as("ann", 1, "GET", room, "").Body), text) {
			time.Sleep(time.Millisecond)
		}
	}
	if took := time.Since(began); took > changes*time.Second/2 {
		t.Errorf("%d changes were seen after %v", changes, took)
	}
}

func TestTmpTurns(t *testing.T) {
	h := install(t, 2)
	h.room(`"capacity":1`)
	next := h.events("internal", "")
	h.join("first")
	name := "first"
	turn := func(user string) time.Time {
		for {
			e := next()
			if e.name == "turn" && strings.Contains(e.data, user) {
				return time.Now()
			}
		}
	}
	turn(name)
	var all []time.Duration
	for i := range 40 {
		user := fmt.Sprintf("u%d", i)
		h.join(user)
		time.Sleep(time.Duration(i*7) * time.Millisecond)
		h.as(name, 0, "DELETE", place, "")
		began := time.Now()
		all = append(all, turn(user).Sub(began))
		name = user
	}
	sum := time.Duration(0)
	worst := all[0]
	for _, d := range all {
		sum += d
		worst = max(worst, d)
	}
	t.Logf("mean %v worst %v", sum/40, worst)
}
