package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/orders"
)

const definition = `{"starts_at":"2026-11-21T12:00:00+01:00","ends_at":"2026-11-21T13:00:00Z","items":[{"item":"shoe","stock":10}]}`

func TestPutSale(t *testing.T) {
	b := setup(t)
	w := call(b.Internal(), "PUT", "/v1/sales/flash", definition)
	defaults := orders.Definition{
		ID: "flash", StartsAt: time.Date(2026, 11, 21, 11, 0, 0, 0, time.UTC), EndsAt: time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC),
		Items: []orders.ItemDefinition{{ID: "shoe", Stock: 10}},
	}
	want, err := defaults.Sale()
	if err != nil {
		t.Fatal(err)
	}
	if got := b.orders.put; w.Code != 200 || !reflect.DeepEqual(got, want) {
		t.Errorf("%d %s: %+v, want Go's defaults %+v", w.Code, w.Body, got, want)
	}
	b.orders.created = true
	w = call(b.Internal(), "PUT", "/v1/sales/flash", strings.Replace(definition, "{", `{"requires_user":false,"hold_ms":0,"revision":7,`, 1))
	if w.Code != 201 || b.orders.put.Revision != 7 || b.orders.put.RequiresUser || b.orders.put.Hold != 0 {
		t.Errorf("%d %s: %+v", w.Code, w.Body, b.orders.put)
	}
	for _, part := range []string{`"switch":"draft"`, `"state":"scheduled"`, `"starts_at":"2026-11-21T11:00:00Z"`, `"hold_ms":0`, `"quota_per_buyer":1`, `"requires_user":false`, `"revision":7`} {
		if !strings.Contains(w.Body.String(), part) {
			t.Errorf("no %s in %s", part, w.Body)
		}
	}
	b.orders.err = failure.New(orders.ErrConflict, "stock of shoe shrinks")
	if p := problemIn(t, call(b.Internal(), "PUT", "/v1/sales/flash", definition)); p.Status != 409 || p.Reason != "conflict" || !strings.Contains(p.Detail, "shrinks") {
		t.Errorf("%+v", p)
	}
}

func TestPutSaleHostile(t *testing.T) {
	b := setup(t)
	for name, tt := range map[string]struct{ path, old, new, at string }{
		"unknown field":    {"flash", `{`, `{"colour":1,`, "body.colour"},
		"unknown in item":  {"flash", `"stock"`, `"colour":1,"stock"`, "body.items[0].colour"},
		"no items":         {"flash", `[{"item":"shoe","stock":10}]`, `[]`, "body.items"},
		"null items":       {"flash", `[{"item":"shoe","stock":10}]`, `null`, "body.items"},
		"stock too large":  {"flash", `10}`, `10000001}`, "body.items[0].stock"},
		"negative stock":   {"flash", `10}`, `-1}`, "body.items[0].stock"},
		"no stock":         {"flash", `,"stock":10`, ``, "body.items[0]"},
		"quota 0":          {"flash", `10}`, `10,"quota_per_buyer":0}`, "body.items[0].quota_per_buyer"},
		"in flight 0":      {"flash", `10}`, `10,"in_flight_max":0}`, "body.items[0].in_flight_max"},
		"hold overflows":   {"flash", `{`, `{"hold_ms":9223372036854775807,`, "body.hold_ms"},
		"revision 0":       {"flash", `{`, `{"revision":0,`, "body.revision"},
		"negative hold":    {"flash", `{`, `{"hold_ms":-1,`, "body.hold_ms"},
		"no time":          {"flash", `2026-11-21T13:00:00Z`, `tomorrow`, "body.ends_at"},
		"ends before":      {"flash", `2026-11-21T13:00:00Z`, `2026-11-21T11:00:00Z`, "body.ends_at"},
		"item named twice": {"flash", `10}`, `10},{"item":"shoe","stock":1}`, "body.items[1].item"},
		"item in braces":   {"flash", `"shoe"`, `"{}"`, "body.items[0].item"},
		"sale in braces":   {"%7B%7D", `{`, `{`, "path.sale"},
		"requires_user":    {"flash", `{`, `{"requires_user":"yes",`, "body.requires_user"},
	} {
		p := problemIn(t, call(b.Internal(), "PUT", "/v1/sales/"+tt.path, strings.Replace(definition, tt.old, tt.new, 1)))
		if p.Status != 422 || !strings.HasPrefix(p.Errors[0].Location, tt.at) {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestPutItem(t *testing.T) {
	b := setup(t)
	const path = "/v1/sales/flash/items/hat"
	w := call(b.Internal(), "PUT", path, `{"stock":7}`)
	if want := (orders.ItemDefinition{ID: "hat", Stock: 7, QuotaPerBuyer: 1, InFlightMax: 10_000}); w.Code != 200 || b.orders.item != want {
		t.Errorf("%d %s: %+v, want %+v", w.Code, w.Body, b.orders.item, want)
	}
	b.orders.created = true
	w = call(b.Internal(), "PUT", path, `{"stock":7,"quota_per_buyer":2,"in_flight_max":3,"final":true}`)
	if want := (orders.ItemDefinition{ID: "hat", Stock: 7, QuotaPerBuyer: 2, InFlightMax: 3, Final: true}); w.Code != 201 || b.orders.item != want {
		t.Errorf("%d %s: %+v, want %+v", w.Code, w.Body, b.orders.item, want)
	}
	if want := `{"item":"hat","stock":7,"free":0,"quota_per_buyer":2,"in_flight_max":3,"final":true}`; strings.TrimSpace(w.Body.String()) != want {
		t.Errorf("%s, want %s", w.Body, want)
	}
	for body, at := range map[string]string{`{}`: "body", `{"stock":-1}`: "body.stock", `{"stock":1,"item":"hat"}`: "body.item"} {
		if p := problemIn(t, call(b.Internal(), "PUT", path, body)); p.Status != 422 || p.Errors[0].Location != at {
			t.Errorf("%s: %+v", body, p)
		}
	}
	if p := problemIn(t, call(b.Internal(), "PUT", "/v1/sales/none/items/hat", `{"stock":7}`)); p.Reason != "unknown_sale" {
		t.Errorf("%+v", p)
	}
	b.orders.err = failure.At(orders.ErrInvalid, "Item.ID", "must be a name")
	if p := problemIn(t, call(b.Internal(), "PUT", path, `{"stock":7}`)); p.Status != 422 || p.Errors[0].Location != "path.item" {
		t.Errorf("%+v", p)
	}
}

// A sale has up to 10,000 items, and a definition with more is refused with both numbers.
func TestPutLargeSale(t *testing.T) {
	b := setup(t)
	of := func(items int) string {
		list := make([]string, items)
		for i := range list {
			list[i] = fmt.Sprintf(`{"item":"%s-%d","stock":10000000,"quota_per_buyer":1000,"in_flight_max":1000000,"final":true}`, strings.Repeat("x", 55), i)
		}
		return strings.Replace(definition, `{"item":"shoe","stock":10}`, strings.Join(list, ","), 1)
	}
	if w := call(b.Internal(), "PUT", "/v1/sales/flash", of(orders.MaxItems)); w.Code != 200 || len(b.orders.put.Items) != orders.MaxItems {
		t.Errorf("%d %.200s: %d items", w.Code, w.Body, len(b.orders.put.Items))
	}
	p := problemIn(t, call(b.Internal(), "PUT", "/v1/sales/flash", of(orders.MaxItems+1)))
	if p.Status != 422 || p.Errors[0].Location != "body.items" || !strings.Contains(p.Errors[0].Message, "10000") || !strings.Contains(p.Errors[0].Message, "10001") {
		t.Errorf("%+v", p)
	}
	if p := problemIn(t, call(b.Internal(), "PUT", "/v1/sales/flash", strings.Replace(definition, "{", "{"+strings.Repeat(" ", sales.MaxSale), 1))); p.Status != 413 {
		t.Errorf("%+v", p)
	}
	if p := problemIn(t, call(b.Internal(), "PUT", "/v1/rooms/hall", `{"mode":"fifo"`+strings.Repeat(" ", request.MaxBody)+"}")); p.Status != 413 {
		t.Errorf("%+v", p)
	}
}

func TestSwitches(t *testing.T) {
	b := setup(t)
	for verb, to := range map[string]orders.Switch{"open": "open", "pause": "paused", "close": "closed"} {
		w := call(b.Internal(), "POST", "/v1/sales/flash/"+verb, "")
		if w.Code != 200 || b.orders.to != to || !strings.Contains(w.Body.String(), `"switch":"`+string(to)+`"`) {
			t.Errorf("%s: %d %s", verb, w.Code, w.Body)
		}
		if p := problemIn(t, call(b.Internal(), "POST", "/v1/sales/none/"+verb, "")); p.Reason != "unknown_sale" {
			t.Errorf("%+v", p)
		}
	}
}

func TestSales(t *testing.T) {
	b := setup(t)
	other := flash
	other.ID = "autumn"
	b.orders.sales = []orders.SaleStatus{other, flash}
	names := func(query string) (names []string, next string) {
		t.Helper()
		var got struct {
			Items []struct{ Sale string }
			Next  string `json:"next_cursor"`
		}
		w := call(b.Internal(), "GET", "/v1/sales"+query, "")
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || got.Items == nil {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		for _, s := range got.Items {
			names = append(names, s.Sale)
		}
		return names, got.Next
	}
	if all, next := names(""); fmt.Sprint(all) != "[autumn flash]" || next != "" {
		t.Errorf("%v %q", all, next)
	}
	first, next := names("?limit=1")
	rest, end := names("?limit=2&cursor=" + next)
	if fmt.Sprint(first, rest) != "[autumn] [flash]" || end != "" {
		t.Errorf("%v %v %q", first, rest, end)
	}
	if p := problemIn(t, call(b.Internal(), "GET", "/v1/sales?cursor=!", "")); p.Status != 422 {
		t.Errorf("%+v", p)
	}
}

func TestVerify(t *testing.T) {
	var told []orders.Check
	b := setup(t, func(c *Config) {
		c.Verified = func(sale string, checks []orders.Check, _ time.Time) {
			if sale == "flash" {
				told = checks
			}
		}
	})
	b.orders.checks = []orders.Check{
		{Invariant: "I3", OK: true, Detail: "40 of 100"}, {Invariant: "I6", Detail: "one unit is missing", Breaches: 1, Advice: "look for it"},
	}
	w := call(b.Internal(), "GET", "/v1/sales/flash/verify", "")
	want := `{"ok":false,"checks":[{"invariant":"I3","ok":true,"detail":"40 of 100"},` +
		`{"invariant":"I6","ok":false,"detail":"one unit is missing","breaches":1,"advice":"look for it"}]}` + "\n"
	if len(told) != 2 {
		t.Errorf("told %v", told)
	}
	if w.Code != 200 || w.Body.String() != want {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	b.orders.checks = b.orders.checks[:1]
	if w := call(b.Internal(), "GET", "/v1/sales/flash/verify", ""); !strings.Contains(w.Body.String(), `"ok":true,"checks"`) {
		t.Errorf("%s", w.Body)
	}
}

func TestRules(t *testing.T) {
	b := setup(t)
	var got struct {
		Version string
		Rules   []struct{ Name string }
	}
	w := call(b.Internal(), "GET", "/v1/rules", "")
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || got.Version != b.gate.rules.Version() || len(got.Rules) != 3 || got.Rules[0].Name != "orders" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestBounds: the documented bounds are those of the package.
func TestBounds(t *testing.T) {
	spec := documentOf(t, setup(t).Internal())
	bound := func(schema, property, which string) any {
		s := spec["components"].(map[string]any)["schemas"].(map[string]any)[schema]
		if s == nil {
			t.Fatalf("no schema %s in %v", schema, slices.Collect(maps.Keys(spec["components"].(map[string]any)["schemas"].(map[string]any))))
		}
		return s.(map[string]any)["properties"].(map[string]any)[property].(map[string]any)[which]
	}
	for _, tt := range []struct {
		got  any
		want float64
	}{
		{bound("OrderRequest", "quantity", "maximum"), orders.MaxQuota},
		{bound("SaleDefinition", "hold_ms", "maximum"), float64(orders.MaxHold.Milliseconds())},
		{bound("SaleDefinition", "items", "maxItems"), orders.MaxItems},
		{bound("ItemDefinition", "stock", "maximum"), orders.MaxStock},
		{bound("ItemDefinition", "quota_per_buyer", "maximum"), orders.MaxQuota},
		{bound("ItemDefinition", "in_flight_max", "maximum"), orders.MaxInFlight},
		{bound("ItemDefinition", "in_flight_max", "default"), orders.DefaultInFlight},
	} {
		if tt.got != tt.want {
			t.Errorf("%v, want %v", tt.got, tt.want)
		}
	}
}
