package httpapi

import (
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
)

var feed = []orders.Event{
	{Seq: 7, At: noon, OrderID: orderID, Sale: "flash", Item: "shoe", Buyer: "ada", Quantity: 2, Units: []int{7, 8}, Status: orders.StatusConfirmed},
	{
		Seq: 9, At: noon, OrderID: orderID, Sale: "flash", Item: "shoe", Quantity: 2, Units: []int{7, 8}, Status: orders.StatusPaid,
		Action: orders.ActionNone, Reference: "pi_1",
	},
	{Seq: 12, At: noon, OrderID: orderID, Sale: "flash", Item: "shoe", Quantity: 1, Status: orders.StatusRejected, Reason: orders.ReasonDuplicate},
}

func TestOrderEvents(t *testing.T) {
	b := setup(t)
	b.orders.events = feed
	w := call(b.Internal(), "GET", "/v1/order-events?after=6", "")
	order := `"at":"2026-11-21T11:00:00.123Z","order_id":"` + orderID.String() + `","sale":"flash","item":"shoe",`
	want := `{"items":[{"seq":7,` + order + `"user":"ada","quantity":2,"units":[7,8],"status":"confirmed"},` +
		`{"seq":9,` + order + `"quantity":2,"units":[7,8],"status":"paid","action":"none","reference":"pi_1"},` +
		`{"seq":12,` + order + `"quantity":1,"units":[],"status":"rejected","reason":"duplicate"}],"next_cursor":"12"}` + "\n"
	if w.Code != 200 || w.Body.String() != want || b.orders.after != 6 || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %s after %d", w.Code, w.Body, b.orders.after)
	}
	for _, tt := range []struct {
		query, next string
		wait        time.Duration
	}{
		{"?after=6&limit=2", "9", 0},
		{"?after=6&limit=2&wait_ms=30000", "9", 30 * time.Second},
		{"", "12", 0},
	} {
		w := call(b.Internal(), "GET", "/v1/order-events"+tt.query, "")
		if w.Code != 200 || !strings.Contains(w.Body.String(), `"next_cursor":"`+tt.next+`"`) || b.orders.waited != tt.wait {
			t.Errorf("%s: %s, waited %v", tt.query, w.Body, b.orders.waited)
		}
	}
	b.orders.events = nil // the feed has no last page
	if w := call(b.Internal(), "GET", "/v1/order-events?after=12&wait_ms=5", ""); w.Body.String() != `{"items":[],"next_cursor":"12"}`+"\n" {
		t.Errorf("%s", w.Body)
	}
	if w := call(b.Internal(), "GET", "/v1/order-events", ""); w.Body.String() != `{"items":[],"next_cursor":"0"}`+"\n" {
		t.Errorf("%s", w.Body)
	}
	for _, query := range []string{"after=-1", "after=x", "after=9223372036854775808", "limit=0", "limit=1001", "wait_ms=30001", "wait_ms=-1"} {
		name, _, _ := strings.Cut(query, "=")
		if p := problemIn(t, call(b.Internal(), "GET", "/v1/order-events?"+query, "")); p.Status != 422 || p.Errors[0].Location != "query."+name {
			t.Errorf("%s: %+v", query, p)
		}
	}
	if p := problemIn(t, call(b.Public(), "GET", "/v1/order-events", "")); p.Status != 404 {
		t.Errorf("everybody's orders are public: %+v", p)
	}
	b.Drain()
	b.orders.waited = -1
	if w := call(b.Internal(), "GET", "/v1/order-events?wait_ms=30000", ""); w.Code != 200 || b.orders.waited != 0 {
		t.Errorf("draining: %d, waited %v", w.Code, b.orders.waited)
	}
}
