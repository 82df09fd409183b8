package httpapi

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/orders"
)

var buried = []orders.DeadLetter{{
	Reservation: orders.Reservation{
		ID: orderID, Epoch: 1, Sale: "flash", Item: "shoe", Buyer: "ada", BuyerHash: "h", KeyHash: "k", Quantity: 2, Units: []int{7, 8}, AcceptedMS: noon.UnixMilli(),
	},
	Reason: `new row for relation "orders" violates check constraint "no_ada"`, At: noon,
}}

func TestDeadLetters(t *testing.T) {
	b := setup(t)
	b.orders.dead = buried
	path := "/v1/orders/dead"
	w := call(b.Internal(), "GET", path, "")
	want := `{"items":[{"order_id":"` + orderID.String() + `","sale":"flash","item":"shoe","user":"ada","quantity":2,"units":[7,8],` +
		`"accepted_at":"2026-11-21T11:00:00.123Z","refused_at":"2026-11-21T11:00:00.123Z",` +
		`"reason":"new row for relation \"orders\" violates check constraint \"no_ada\""}],"next_cursor":null}` + "\n"
	if w.Code != 200 || w.Body.String() != want {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	var first struct {
		Next string `json:"next_cursor"`
	}
	w = call(b.Internal(), "GET", path+"?limit=1", "")
	if err := json.Unmarshal(w.Body.Bytes(), &first); err != nil || first.Next == "" {
		t.Fatalf("%s", w.Body)
	}
	if w := call(b.Internal(), "GET", path+"?cursor="+first.Next, ""); w.Code != 200 || b.orders.afterID != orderID {
		t.Errorf("%d after %v", w.Code, b.orders.afterID)
	}
	if p := problemIn(t, call(b.Internal(), "GET", path+"?cursor=!", "")); p.Status != 422 {
		t.Errorf("%+v", p)
	}
	if p := problemIn(t, call(b.Public(), "GET", path, "")); p.Reason != "unknown_order" {
		t.Errorf("%+v", p)
	}
}

func TestReplay(t *testing.T) {
	b := setup(t)
	path := "/v1/orders/dead/" + orderID.String() + "/replay"
	if w := call(b.Internal(), "POST", path, "", "X-User-ID", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"status":"confirmed"`) || !slices.Contains(b.orders.calls, "replay") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	b.orders.err = failure.New(orders.ErrStillRefused, "order %s: violates no_ada", orderID)
	p := problemIn(t, call(b.Internal(), "POST", path, ""))
	if p.Status != 409 || p.Reason != "still_refused" || p.Detail != "order "+orderID.String()+": violates no_ada" {
		t.Errorf("%+v", p)
	}
	b.orders.err = orders.ErrUnknownOrder
	for _, id := range []string{orderID.String(), "x", "%00"} {
		if p := problemIn(t, call(b.Internal(), "POST", "/v1/orders/dead/"+id+"/replay", "")); p.Status != 404 || p.Reason != "unknown_order" {
			t.Errorf("%s: %+v", id, p)
		}
	}
	b.orders.err = orders.ErrRecovering
	if p := problemIn(t, call(b.Internal(), "POST", path, "")); p.Status != 503 {
		t.Errorf("%+v", p)
	}
}
