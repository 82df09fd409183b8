package rehearseroom_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// W18, W19: of twenty for six units, those who were certain get one. As soon as the last one is sold, everybody who waits is turned away at the
// next look, for good, and nobody joins.
func TestEverybodyIsToldTheEnd(t *testing.T) {
	t.Parallel()
	h := prepare(t)
	h.ownClock(time.Now())
	h.startAPI()
	h.startAPI()
	h.startWorker()
	const stock = 6
	h.sell(stock, 1, 0)
	h.room(`"sale":"gala","item":"ticket","capacity":2`)
	users := people(20)
	h.join(users...)
	certain, ordered := make(map[string]bool), make(map[string]bool)
	phase := ""
	for end := h.at.Add(5 * time.Minute); phase != "exhausted" && h.at.Before(end); {
		h.later(step)
		h.seenByAll()
		for i, user := range users {
			p := h.look(user)
			switch {
			case p.Outlook == "none":
				continue
			case p.State == "waiting" && p.Outlook == "certain":
				certain[user] = true
			}
			if p.State == "turn" && h.claim(user, i) == http.StatusOK {
				if a := h.order(user); a.Status != http.StatusAccepted {
					t.Errorf("%s was admitted: %v", user, a)
				}
				ordered[user] = true
			}
		}
		var doc struct{ Phase string }
		if err := json.Unmarshal(servetest.Call("GET", h.apis[0].URL("public")+room, "").Body, &doc); err != nil {
			t.Fatal(err)
		}
		phase = doc.Phase
	}
	h.seenByAll()
	for range 2 { // it stays so
		for i, user := range users {
			want := seen{State: "turned_away", Outlook: "none"}
			if i < stock {
				want = seen{State: "done", Outlook: "certain"}
			}
			var p seen
			h.as(user, i, "GET", place, "").Into(t, &p)
			if p.State != want.State || p.Outlook != want.Outlook || p.PollAfterMS != 0 || ordered[user] != (i < stock) || (p.OrderID != "") != ordered[user] {
				t.Errorf("%s is %+v, want %+v; ordered: %t", user, p, want, ordered[user])
			}
			if certain[user] && !ordered[user] {
				t.Errorf("%s was certain, and has no unit", user)
			}
		}
		h.later(step)
	}
	if len(certain) == 0 {
		t.Error("nobody who waited was certain")
	}
	if a := h.as("late", 1, "POST", place, ""); a.Status != http.StatusConflict || !strings.Contains(string(a.Body), `"sold_out"`) {
		t.Errorf("who comes then: %v", a)
	}
	h.verify("/v1/sales/" + sale + "/verify")
}

// W20, P22, P23: a unit that is given back is for the next place: it is refused to a crowd that orders without a turn at that moment, and to the
// one who gave it back.
func TestAReturnedUnit(t *testing.T) {
	t.Parallel()
	h := install(t, 2)
	h.startWorker()
	h.sell(2, 2, 10*time.Minute)
	h.room(`"sale":"gala","item":"ticket"`)
	h.join("ann", "bob", "cem", "dan")
	enter := func(user string) {
		t.Helper()
		servetest.Until(t, http.StatusOK, func() servetest.Answer { return h.as(user, 0, "POST", place+"/claim", "") })
	}
	buy := func(user, key string) servetest.Answer {
		return servetest.Call("POST", h.apis[1].URL("public")+"/v1/sales/"+sale+"/orders", `{"item":"ticket"}`, "X-User-ID", user, "Idempotency-Key", key)
	}
	var order struct {
		OrderID string `json:"order_id"`
	}
	for _, user := range []string{"bob", "ann"} {
		enter(user)
		servetest.Until(t, http.StatusAccepted, func() servetest.Answer { return buy(user, user+"-1") }).Into(t, &order)
	}
	servetest.Until(t, http.StatusOK, func() servetest.Answer {
		a := h.as("cem", 0, "GET", place, "")
		if !strings.Contains(string(a.Body), `"waiting_for_returns"`) {
			a.Status = 0
		}
		return a
	})
	bought := make(chan string, 1000)
	over := make(chan struct{})
	var snipers sync.WaitGroup
	for i := range 8 {
		snipers.Go(func() {
			for n := 0; ; n++ {
				user := []string{"ann", "cem", "dan", "bob", fmt.Sprintf("sniper-%d-%d", i, n)}[min(n, 4)]
				if user == "cem" {
					continue // who has the right to it
				}
				switch a := buy(user, fmt.Sprintf("snipe-%d-%d", i, n)); a.Status {
				case http.StatusForbidden, http.StatusServiceUnavailable, http.StatusConflict:
				default:
					bought <- fmt.Sprintf("%s: %v", user, a)
					return
				}
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return h.as("ann", 0, "POST", "/v1/orders/"+order.OrderID+"/cancel", "") })
	enter("cem")
	servetest.Until(t, http.StatusAccepted, func() servetest.Answer { return buy("cem", "cem-1") })
	close(over)
	snipers.Wait()
	select {
	case who := <-bought:
		t.Error(who)
	default:
	}
	if p := h.look("dan"); p.State != "waiting" {
		t.Errorf("dan is %+v", p)
	}
	h.verify("/v1/sales/" + sale + "/verify")
}
