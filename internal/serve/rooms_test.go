package serve

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// TestWaitingRoomSells: over two processes, everybody who is admitted gets a unit, nobody else does, and the last ones are told that nothing
// is left.
func TestWaitingRoomSells(t *testing.T) {
	t.Parallel()
	env := environment(testenv.Redis(t), databases.Postgres(t))
	api := [2]*servetest.Program{startAPI(t, env), startAPI(t, env)}
	startWorker(t, env)
	openShop(t, api[0], 1)
	const sale, stock, people = "gala", 5, 12
	definition := strings.Replace(servetest.Sale("ticket", stock), `"stock":5`, `"stock":5,"final":true`, 1)
	servetest.OpenSale(t, api[0].URL("internal"), sale, definition)
	servetest.AwaitOpen(t, api[1].URL("internal"), sale)
	call := func(method, url, body string, fields ...string) servetest.Answer {
		return servetest.Decided(func() servetest.Answer { return servetest.Call(method, url, body, fields...) }, "at_capacity")
	}
	room := "/v1/rooms/gala"
	began := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	body := fmt.Sprintf(`{"sale":%q,"item":"ticket","mode":"fifo","starts_at":%q}`, sale, began)
	if a := call("PUT", api[0].URL("internal")+room, body); a.Status/100 != 2 {
		t.Fatal(a)
	}
	order := func(p *servetest.Program, user string) servetest.Answer {
		return call("POST", p.URL("public")+"/v1/sales/"+sale+"/orders", `{"item":"ticket"}`, "X-User-ID", user, "Idempotency-Key", user)
	}
	servetest.Until(t, http.StatusForbidden, func() servetest.Answer { return order(api[1], "nobody") })
	if a := order(api[0], "nobody"); !strings.Contains(string(a.Body), `"reason":"turn_required"`) || !strings.Contains(string(a.Body), `"room":"/v1/rooms/gala"`) {
		t.Error(a)
	}

	type place struct {
		State, Pass, Outlook string
		Position             int
		OrderID              string `json:"order_id"`
	}
	var mu sync.Mutex
	ends, positions := map[string]int{}, map[int]bool{}
	var visitors sync.WaitGroup
	for i := range people {
		visitors.Go(func() {
			user := fmt.Sprint("user-", i)
			at := func(n int) string { return api[(i+n)%2].URL("public") + room + "/place" }
			if a := call("POST", at(0), "", "X-User-ID", user); a.Status/100 != 2 {
				t.Error(a)
				return
			}
			var p place
			for n := 1; ; n++ { // each time at the other process
				a := call("GET", at(n)+"?wait_ms=2000", "", "X-User-ID", user)
				if a.Status != http.StatusOK {
					t.Error(a)
					return
				}
				if a.Into(t, &p); p.State != "waiting" {
					break
				}
			}
			mu.Lock()
			defer mu.Unlock()
			ends[p.State]++
			if positions[p.Position] {
				t.Errorf("two at position %d", p.Position)
			}
			positions[p.Position] = true
			if p.State != "turn" {
				return
			}
			a := call("POST", at(0)+"/claim", "", "X-User-ID", user)
			if a.Into(t, &p); a.Status != http.StatusOK || p.Pass == "" {
				t.Error(a)
				return
			}
			asked := []string{"X-Waiting-Room-Pass", p.Pass, "X-Forwarded-Uri", "/pay", "X-Forwarded-Method", "GET"}
			if a := call("GET", api[i%2].URL("internal")+"/v1/authz?room=gala", "", asked...); a.Status != http.StatusOK || a.Header.Get("X-User-ID") != user {
				t.Errorf("%v %v", a, a.Header)
			}
			if a := order(api[(i+1)%2], user); a.Status != http.StatusAccepted {
				t.Errorf("%s was admitted: %v", user, a)
			}
		})
	}
	visitors.Wait()
	if ends["turn"] != stock || ends["turned_away"] != people-stock {
		t.Errorf("%v", ends)
	}
	if a := call("GET", api[1].URL("internal")+room+"/verify", ""); !strings.Contains(string(a.Body), `{"ok":true`) {
		t.Error(a)
	}
	for _, p := range api { // each learns of the end within a tick
		servetest.Until(t, http.StatusOK, func() servetest.Answer {
			a := servetest.Call("GET", p.URL("public")+room, "")
			if !strings.Contains(string(a.Body), `"phase":"exhausted"`) {
				a.Status = 0
			}
			return a
		})
	}
	if a := call("POST", api[1].URL("public")+room+"/place", "", "X-User-ID", "late"); a.Status != http.StatusConflict || !strings.Contains(string(a.Body), "sold_out") {
		t.Error(a)
	}
	metrics := servetest.Call("GET", api[0].URL("internal")+"/metrics", "")
	for _, line := range []string{`tidegate_room_joined_total{lane="",room="gala"} 12`, `tidegate_room_phase{phase="exhausted",room="gala"} 1`} {
		if !strings.Contains(string(metrics.Body), line) {
			t.Errorf("no %s", line)
		}
	}
}

// A room follows its sale, in every process: it stands still while the sale is paused, and ends with it.
func TestARoomFollowsItsSale(t *testing.T) {
	t.Parallel()
	env := environment(testenv.Redis(t), databases.Postgres(t))
	api := [2]*servetest.Program{startAPI(t, env), startAPI(t, env)}
	startWorker(t, env)
	servetest.OpenSale(t, api[0].URL("internal"), "gala", servetest.Sale("ticket", 5))
	servetest.AwaitOpen(t, api[1].URL("internal"), "gala")
	began := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	if a := servetest.Call("PUT", api[0].URL("internal")+"/v1/rooms/gala", fmt.Sprintf(`{"sale":"gala","item":"ticket","mode":"fifo","starts_at":%q}`, began)); a.Status/100 != 2 {
		t.Fatal(a)
	}
	place := func(p *servetest.Program) string { return p.URL("public") + "/v1/rooms/gala/place" }
	as := func(method, url, user string) servetest.Answer {
		return servetest.Call(method, url, "", "X-User-ID", user)
	}
	shows := func(phase, message string) {
		t.Helper()
		for _, p := range api {
			for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
				var room struct{ Phase, Message string }
				if servetest.Call("GET", p.URL("public")+"/v1/rooms/gala", "").Into(t, &room); room.Phase == phase && room.Message == message {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("the room is %+v, want %s, %q", room, phase, message)
				}
			}
		}
	}
	change := func(verb string) {
		t.Helper()
		if a := servetest.Call("POST", api[0].URL("internal")+"/v1/sales/gala/"+verb, ""); a.Status != http.StatusOK {
			t.Fatal(a)
		}
	}

	shows("serving", "")
	for _, user := range []string{"ann", "bob"} {
		if a := as("POST", place(api[0]), user); a.Status/100 != 2 {
			t.Fatal(a)
		}
	}
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return as("POST", place(api[0])+"/claim", "ann") })
	servetest.Until(t, http.StatusOK, func() servetest.Answer { // the other process lets in a moment later
		a := as("GET", place(api[1]), "bob")
		if !strings.Contains(string(a.Body), `"state":"turn"`) {
			a.Status = 0
		}
		return a
	})
	change("pause")
	shows("held", "The sale is paused.")
	if a := as("POST", place(api[1])+"/claim", "bob"); a.Status != http.StatusServiceUnavailable || !strings.Contains(string(a.Body), `"reason":"at_capacity"`) {
		t.Error(a)
	}
	change("open")
	shows("serving", "")
	change("close")
	shows("closed", "The sale is over.")
	if a := as("POST", place(api[1]), "late"); a.Status != http.StatusConflict || !strings.Contains(string(a.Body), `"reason":"ended"`) {
		t.Error(a)
	}
	if a := as("GET", place(api[1]), "bob"); !strings.Contains(string(a.Body), `"state":"lapsed"`) && !strings.Contains(string(a.Body), `"state":"turned_away"`) {
		t.Error(a)
	}
}
