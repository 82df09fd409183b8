package httpapi

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/orders"
)

func TestOwnOrders(t *testing.T) {
	b := setup(t)
	second := confirmed
	second.ID[15]++
	b.orders.list = []orders.Order{accepted, second}
	get := func(query string) (got struct {
		Items []struct {
			OrderID string `json:"order_id"`
			User    string `json:"user"`
		}
		Next *string `json:"next_cursor"`
	},
	) {
		t.Helper()
		w := call(b.Public(), "GET", "/v1/sales/flash/orders"+query, "")
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return got
	}
	if got := get(""); len(got.Items) != 2 || got.Next != nil || got.Items[0].User != "" {
		t.Errorf("%+v", got)
	}
	if q := b.orders.query; q != (orders.Query{Sale: "flash", Viewer: orders.Viewer{User: "ada"}, Limit: 100}) {
		t.Errorf("%+v", q)
	}
	page := get("?limit=1")
	if len(page.Items) != 1 || page.Next == nil {
		t.Fatalf("%+v", page)
	}
	get("?limit=1&cursor=" + url.QueryEscape(*page.Next))
	if b.orders.query.After != accepted.ID {
		t.Errorf("%+v", b.orders.query)
	}
	b.orders.list = nil
	if got := get("?user=eve"); got.Items == nil || b.orders.query.User != "" {
		t.Errorf("%+v of %+v", got, b.orders.query)
	}

	if p := problemIn(t, call(b.Public(), "GET", "/v1/sales/flash/orders", "", "X-User-ID", "")); p.Status != 401 || p.Reason != "unauthenticated" {
		t.Errorf("%+v", p)
	}
	for _, query := range []string{"limit=0", "limit=1001", "limit=x", "cursor=x", "cursor=!!", "cursor=AAAA"} {
		p := problemIn(t, call(b.Public(), "GET", "/v1/sales/flash/orders?"+query, ""))
		name, _, _ := strings.Cut(query, "=")
		if p.Status != 422 || p.Errors[0].Location != "query."+name {
			t.Errorf("%s: %+v", query, p)
		}
	}
}

func TestAllOrders(t *testing.T) {
	b := setup(t)
	b.orders.list = []orders.Order{accepted}
	w := call(b.Internal(), "GET", "/v1/sales/flash/orders?status=confirmed&user=ada&limit=1", "", "X-User-ID", "")
	var got struct {
		Items []struct{ User string }
		Next  *string `json:"next_cursor"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || len(got.Items) != 1 || got.Items[0].User != "ada" || got.Next == nil {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	want := orders.Query{Sale: "flash", Viewer: orders.Viewer{All: true}, User: "ada", Status: "confirmed", Limit: 1}
	if b.orders.query != want {
		t.Errorf("%+v", b.orders.query)
	}
	for _, query := range []string{"status=nonsense", "cursor=AAAA", "limit=-1"} {
		if p := problemIn(t, call(b.Internal(), "GET", "/v1/sales/flash/orders?"+query, "")); p.Status != 422 {
			t.Errorf("%s: %+v", query, p)
		}
	}
}

// TestCursorsOfEvents: a cursor that is no ID is not sent to the database, because Postgres refuses some texts.
func TestCursorsOfEvents(t *testing.T) {
	b, kept := withAudit(t)
	kept.err = errors.New("it was asked")
	if w := call(b.Internal(), "GET", "/v1/login/history?reference=%00", "", "X-Tidegate-Token", bossToken); w.Code != 422 || !strings.Contains(w.Body.String(), "query.reference") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, path := range []string{"/v1/audit", "/v1/bans/history", "/v1/login/history"} {
		for _, cursor := range []string{"AA", "_w", "IA", *response.Cursor([]byte("ID\n"))} {
			w := call(b.Internal(), "GET", path+"?cursor="+cursor, "", "X-Tidegate-Token", bossToken)
			if w.Code != 422 || !strings.Contains(w.Body.String(), "query.cursor") {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
	}
}
