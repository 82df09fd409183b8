package rehearseroom_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// event is one of a stream.
type event struct{ name, id, data string }

// events opens the stream of the room at a listener of the second API. The function that it returns waits for the next event.
func (h *house) events(listener, lastID string) (next func() event) {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), time.Minute) // the test fails then
	h.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", h.apis[1].URL(listener)+room+"/events", http.NoBody)
	if err != nil {
		h.Fatal(err)
	}
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		h.Fatal(resp, err)
	}
	h.Cleanup(func() { _ = resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	return func() (e event) {
		h.Helper()
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "event":
				e.name = value
			case "id":
				e.id = value
			case "data":
				e.data = value
				return e
			}
		}
		h.Fatalf("the stream has ended: %v", lines.Err())
		return e
	}
}

// W22: the shop's server is told of each turn, and of the end, by the process that did not give it. One that connects again misses no turn.
// The public stream names nobody.
func TestTurnsAreAnnounced(t *testing.T) {
	t.Parallel()
	h := prepare(t)
	h.ownClock(time.Now())
	h.startAPI()
	h.startAPI()
	h.room(`"capacity":2`)
	first, public := h.events("internal", ""), h.events("public", "")
	if e := first(); e.name != "room" || e.id != "0" {
		t.Errorf("at first: %+v", e)
	}
	h.join("ann", "bob", "cem")
	h.as("cem", 0, "DELETE", place, "")
	h.join("dan")
	turn := func(next func() event, user, id string) {
		t.Helper()
		e := next()
		for e.name == "room" {
			e = next()
		}
		var p struct {
			User, State string
			TurnUntil   time.Time `json:"turn_until"`
		}
		if err := json.Unmarshal([]byte(e.data), &p); err != nil || e.name != "turn" || e.id != id || p.User != user || p.State != "turn" || p.TurnUntil.Before(h.at) {
			t.Errorf("%+v, want the turn of %s, %v", e, user, err)
		}
	}
	h.later(step)
	turn(first, "ann", "1")
	turn(first, "bob", "2")
	again := h.events("internal", "1")
	turn(again, "bob", "2")
	h.as("ann", 0, "DELETE", place, "")
	h.later(step)
	turn(first, "dan", "4") // who left before has no turn
	turn(again, "dan", "4")
	h.operate(http.StatusOK, "POST", room+"/close", "")
	for e := first(); !strings.Contains(e.data, `"phase":"closed"`); e = first() {
	}
	for e := public(); !strings.Contains(e.data, `"phase":"closed"`); e = public() {
		if e.name != "room" || e.id != "" || strings.Contains(e.data, "ann") {
			t.Errorf("%+v", e)
		}
	}
}
