package rehearseroom_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// W31, W32, P20: after each step every place that was given is in one state, and what happened to it can be read back, with its time and the
// reason of a bar. The audit log has the operator's acts. A pass that is over, and one of an order, hold no capacity.
func TestALifeIsTold(t *testing.T) {
	t.Parallel()
	h := prepare(t)
	h.ownClock(time.Now())
	h.startAPI()
	h.startAPI()
	h.startWorker()
	h.sell(50, 1, 0)
	h.room(`"sale":"gala","item":"ticket","capacity":3,"claim_ms":10000,"pass_ms":10000`)
	type life struct {
		User, State, Reason string
		Number              int64
		JoinedAt            time.Time  `json:"joined_at"`
		AdmittedAt          *time.Time `json:"admitted_at"`
		DoneAt              *time.Time `json:"done_at"`
		LeftAt              *time.Time `json:"left_at"`
		OrderID             string     `json:"order_id"`
	}
	// lives returns all places by user, after it has compared them with how many joined.
	lives := func(step string, joined int, want string) map[string]life {
		t.Helper()
		h.seenByAll()
		var list struct{ Items []life }
		h.operate(http.StatusOK, "GET", room+"/places?limit=100", "").Into(t, &list)
		all := make(map[string]life)
		var states []string
		for i, l := range list.Items {
			if l.Number != int64(i+1) || l.JoinedAt.IsZero() {
				t.Errorf("%s: place %d is %+v", step, i+1, l)
			}
			all[l.User] = l
			states = append(states, l.State)
		}
		var doc struct{ Joined int }
		if h.operate(http.StatusOK, "GET", room, "").Into(t, &doc); doc.Joined != joined || len(list.Items) != joined {
			t.Errorf("%s: %d joined, and %d have places, want %d", step, doc.Joined, len(list.Items), joined)
		}
		if got := strings.Join(states, " "); got != want {
			t.Errorf("%s: %s, want %s", step, got, want)
		}
		h.verify()
		return all
	}
	h.join("ann", "bob", "cem", "dan", "eve", "fay")
	lives("all have joined", 6, "waiting waiting waiting waiting waiting waiting")
	h.as("dan", 0, "DELETE", place, "")
	h.operate(http.StatusOK, "PUT", "/v1/bans/user/eve", `{"for_ms":600000,"reason":"many accounts"}`)
	servetest.Until(t, http.StatusForbidden, func() servetest.Answer { return h.as("eve", 1, "GET", place, "") }) // both APIs know it
	servetest.Until(t, http.StatusForbidden, func() servetest.Answer { return h.as("eve", 0, "GET", place, "") })
	h.later(step)
	lives("three have turns", 6, "turn turn turn left waiting waiting")
	for i, user := range []string{"ann", "bob"} {
		if status := h.claim(user, i); status != http.StatusOK {
			t.Fatal(user, status)
		}
	}
	if a := h.order("ann"); a.Status != http.StatusAccepted {
		t.Fatal(a)
	}
	h.later(step)
	lives("one has ordered", 6, "done admitted turn left barred turn")
	h.later(12 * time.Second)
	all := lives("the others were silent", 6, "done lapsed lapsed left barred lapsed")
	if l := all["ann"]; l.OrderID == "" || l.AdmittedAt == nil || l.DoneAt == nil || l.DoneAt.Before(*l.AdmittedAt) || l.AdmittedAt.Before(l.JoinedAt) {
		t.Errorf("%+v", l)
	}
	if l := all["dan"]; l.LeftAt == nil {
		t.Errorf("%+v", l)
	}
	if l := all["eve"]; l.Reason != "banned" {
		t.Errorf("%+v", l)
	}
	if a := h.as("fay", 0, "POST", place, ""); a.Status != http.StatusCreated {
		t.Errorf("who lapsed joins again: %v", a)
	}
	h.seenByAll()
	if a := h.operate(http.StatusOK, "GET", room+"/places?user=fay", ""); !strings.Contains(string(a.Body), `"number":6`) || !strings.Contains(string(a.Body), `"number":7`) {
		t.Errorf("both places of fay: %v", a)
	}
	for _, act := range []string{"hold", "resume", "close"} {
		h.operate(http.StatusOK, "POST", room+"/"+act, fmt.Sprintf(`{"reason":"why %s"}`, act))
	}
	var log struct {
		Items []struct {
			Actor, Action, Target, Outcome string
			At                             time.Time
		}
	}
	a := h.operate(http.StatusOK, "GET", "/v1/audit?limit=3", "")
	a.Into(t, &log)
	for i, act := range []string{"close", "resume", "hold"} {
		e := log.Items[i]
		if e.Actor != "local" || e.Action != act+"-room" || e.Target != room+"/"+act || e.Outcome != "done" || e.At.IsZero() || !strings.Contains(string(a.Body), "why "+act) {
			t.Errorf("%+v, want %s", e, act)
		}
	}
}
