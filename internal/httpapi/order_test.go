package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
)

func TestOrder(t *testing.T) {
	b := setup(t)
	w := call(b.Public(), "GET", "/v1/orders/"+orderID.String(), "")
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	poll, _ := got["poll_after_ms"].(float64)
	if poll < 1500 || poll > 2500 {
		t.Errorf("poll after %v", poll)
	}
	delete(got, "poll_after_ms")
	text, _ := json.Marshal(got)
	want := `{"accepted_at":"2026-11-21T11:00:00.123Z","confirmed_at":"2026-11-21T11:00:01.123Z","item":"shoe",` +
		`"order_id":"0193509c-2c00-8001-8000-1234567890ab","pay_before":"2026-11-21T11:15:00.123Z","quantity":2,"sale":"flash","status":"confirmed","units":[7,8]}`
	if string(text) != want {
		t.Errorf("%s", text)
	}
	if b.orders.viewer != (orders.Viewer{User: "ada"}) || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%+v %v", b.orders.viewer, w.Header())
	}

	b.orders.found = accepted
	w = call(b.Public(), "GET", "/v1/orders/"+strings.ToUpper(orderID.String()), "")
	if body := w.Body.String(); w.Code != 200 || !strings.Contains(body, `"units":[]`) || !strings.Contains(body, `"confirmed_at":null`) ||
		!strings.Contains(body, `"pay_before":null`) || strings.Contains(body, "reason") {
		t.Errorf("%d %s", w.Code, body)
	}
}

func TestOrderIsTheBuyersOwn(t *testing.T) {
	b := setup(t)
	path := "/v1/orders/" + orderID.String()
	for name, tt := range map[string]struct {
		h      http.Handler
		user   string
		status int
	}{
		"buyer":    {b.Public(), "ada", 200},
		"other":    {b.Public(), "eve", 404},
		"nobody":   {b.Public(), "", 404},
		"operator": {b.Internal(), "", 200},
	} {
		w := call(tt.h, "GET", path, "", "X-User-ID", tt.user)
		if w.Code != tt.status {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if named := strings.Contains(w.Body.String(), `"user":"ada"`); named != (name == "operator") {
			t.Errorf("%s: %s", name, w.Body)
		}
	}
	b.orders.found.Buyer = "" // anyone with the id of an anonymous order
	if w := call(b.Public(), "GET", path, "", "X-User-ID", "eve"); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	b.orders.err = orders.ErrRecovering
	if p := problemIn(t, call(b.Public(), "GET", path, "")); p.Status != 503 || p.Reason != "recovering" {
		t.Errorf("%+v", p)
	}
}

func TestOrderWait(t *testing.T) {
	path := "/v1/orders/" + orderID.String()
	for query, want := range map[string]struct {
		wait  time.Duration
		while orders.Status
	}{
		"":                               {0, ""},
		"?wait_ms=0":                     {0, ""},
		"?wait_ms=250":                   {250 * time.Millisecond, "accepted"},
		"?wait_ms=30000&while=confirmed": {30 * time.Second, "confirmed"},
	} {
		b := setup(t)
		if w := call(b.Public(), "GET", path+query, ""); w.Code != 200 || b.orders.waited != want.wait || b.orders.while != want.while {
			t.Errorf("%s: %d, waited %v while %q", query, w.Code, b.orders.waited, b.orders.while)
		}
		b.Drain()
		b.orders.waited = 0
		if w := call(b.Public(), "GET", path+query, ""); w.Code != 200 || b.orders.waited != 0 {
			t.Errorf("draining %s: %d, waited %v", query, w.Code, b.orders.waited)
		}
	}
	for _, query := range []string{"wait_ms=-1", "wait_ms=30001", "wait_ms=1000000000", "wait_ms=99999999999999999999", "wait_ms=abc", "wait_ms=1.5", "wait_ms=%00", "while=sold"} {
		b := setup(t)
		p := problemIn(t, call(b.Public(), "GET", path+"?"+query, ""))
		name, _, _ := strings.Cut(query, "=")
		if p.Status != 422 || len(p.Errors) != 1 || p.Errors[0].Location != "query."+name {
			t.Errorf("%s: %+v", query, p)
		}
	}
}

func TestUnknownIDs(t *testing.T) {
	b := setup(t)
	for _, id := range []string{
		"x", "{}", "\n", "\x00", "👟", "..", "%", "a/b", strings.Repeat("x", 10<<10), strings.Repeat("{}", 18), "'; DROP TABLE orders; --",
		"00000000-0000-0000-0000-000000000000", "0193509c-2c00-4001-8000-1234567890ab", orderID.String() + "\n",
		"{0193509c-2c00-8001-8000-1234567890ab}", "0193509c-2c00-8001-8000-1234567890ac",
	} {
		p := problemIn(t, call(b.Public(), "GET", "/v1/orders/"+url.PathEscape(id), ""))
		if p.Status != 404 || p.Reason != "unknown_order" {
			t.Errorf("order %.40q: %+v", id, p)
		}
		p = problemIn(t, call(b.Public(), "GET", "/v1/sales/"+url.PathEscape(id), ""))
		if p.Status != 404 || p.Reason != "unknown_sale" {
			t.Errorf("sale %.40q: %+v", id, p)
		}
		p = problemIn(t, call(b.Public(), "POST", "/v1/sales/"+url.PathEscape(id)+"/orders", `{"item":"shoe"}`))
		if p.Status != 404 || p.Reason != "unknown_sale" {
			t.Errorf("order in sale %.40q: %+v", id, p)
		}
	}
	for _, path := range []string{"/", "/v1", "/v1/orders/", "/v1/orders", "/v1/sales/", "/v1/sales/flash/", "/v1/sales//orders", "/v1/sales/flash/orders/", "/v1/sales/flash/open", "/v1/rules", "/metrics"} {
		if p := problemIn(t, call(b.Public(), "GET", path, "")); p.Status != 404 || p.Reason != "unknown_route" {
			t.Errorf("%s: %+v", path, p)
		}
	}
}

func TestSale(t *testing.T) {
	b := setup(t)
	w := call(b.Public(), "GET", "/v1/sales/flash", "")
	want := `{"sale":"flash","state":"open","now":"2026-11-21T11:00:00.123Z","starts_at":"2026-11-21T11:00:00.123Z",` +
		`"ends_at":"2026-11-21T12:00:00.123Z","items":[{"item":"shoe","stock":100,"free":40}]}` + "\n"
	if w.Code != 200 || w.Body.String() != want || w.Header().Get("Cache-Control") != "max-age=1" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	b.orders.err = errors.New("pq: secret")
	if p := problemIn(t, call(b.Public(), "GET", "/v1/sales/flash", "")); p.Status != 500 || p.Detail != "" {
		t.Errorf("%+v", p)
	}
}
