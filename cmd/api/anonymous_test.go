package main

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// A sale without users: the key is all that an order belongs to, so it has to be one that nobody guesses, and guesses cost what orders do.
func TestOrdersWithoutAUser(t *testing.T) {
	p := startWith(t, map[string]string{"TRUSTED_PROXIES": "127.0.0.1"})
	definition := strings.Replace(servetest.Sale("ticket", 3), "{", `{"requires_user":false,`, 1)
	servetest.OpenSale(t, p.URL("internal"), "open-day", definition)
	address := 0
	elsewhere := func() string { address++; return fmt.Sprintf("203.0.113.%d", address) }
	order := func(from, key string, fields ...string) servetest.Answer {
		if key != "" {
			fields = append(fields, "Idempotency-Key", key)
		}
		return servetest.Call("POST", p.URL("public")+"/v1/sales/open-day/orders", `{"item":"ticket"}`, append(fields, "X-Forwarded-For", from)...)
	}

	for key, want := range map[string]string{
		"":                                       `"key_required"`,
		"7f3a":                                   `has 4 characters`,
		fmt.Sprint(time.Now().UnixMilli()):       `has 13 characters`,
		strings.Repeat("k", 21):                  `has 21 characters`,
		strings.Repeat("k", 256):                 `at most 255 characters`,
		"with a tab\tin more than 22 characters": `printable`,
	} {
		a := order(elsewhere(), key)
		if a.Status != http.StatusUnprocessableEntity || !strings.Contains(string(a.Body), want) {
			t.Errorf("%q: %v, want %s", key, a, want)
		}
		if strings.HasPrefix(want, "has") && !strings.Contains(string(a.Body), "22 to 255") {
			t.Errorf("%q: %v does not say what is right", key, a)
		}
	}
	// With a user the key only distinguishes repetitions from other orders.
	if a := order(elsewhere(), "7f3a", "X-User-ID", "ann"); a.Status != http.StatusAccepted {
		t.Errorf("a user's short key: %v", a)
	}
	shortest, longest := strings.Repeat("s", 22), strings.Repeat("l", 255)
	for _, key := range []string{shortest, longest} {
		if a := order(elsewhere(), key); a.Status != http.StatusAccepted {
			t.Errorf("%d characters: %v", len(key), a)
		}
	}

	// All units are sold, and the process has cached that. A guess costs as much as an order.
	servetest.Until(t, http.StatusConflict, func() servetest.Answer { return order(elsewhere(), rand.Text()) })
	guesser := elsewhere()
	for i := range 10 { // as many as the built-in rules give an address
		a := order(guesser, rand.Text())
		if a.Status != http.StatusConflict || !strings.HasPrefix(a.Header.Get("RateLimit"), fmt.Sprintf(`"orders";r=%d;`, 9-i)) {
			t.Fatalf("guess %d: %v, RateLimit %q", i, a, a.Header.Get("RateLimit"))
		}
	}
	for range 3 {
		if a := order(guesser, rand.Text()); a.Status != http.StatusTooManyRequests {
			t.Errorf("one guess too many: %v", a)
		}
		if a := order(elsewhere(), shortest); a.Status != http.StatusAccepted || a.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("its holder: %v", a)
		}
	}
	// With a user the refusal comes from local memory, as usual.
	if a := order(elsewhere(), "", "X-User-ID", "bob"); a.Status != http.StatusConflict || a.Header.Get("RateLimit") != "" {
		t.Errorf("%v, RateLimit %q", a, a.Header.Get("RateLimit"))
	}
}

// TestReferencesOfAnonymousOrders: the id of an order without a user is a secret of its buyer. Whoever only looks sees a reference instead, in
// lists, logs and the audit log, and can neither read nor change the order with it on the public listener.
func TestReferencesOfAnonymousOrders(t *testing.T) {
	p := startWith(t, map[string]string{"TOKENS_FILE": writeFile(t, "tokens.yaml", tokensOfAllRoles), "LOG_LEVEL": "debug"})
	public, internal := p.URL("public"), p.URL("internal")
	as := map[string][]string{"operator": {"X-Tidegate-Token", "token-of-an-operator"}, "admit": {"X-Tidegate-Token", "token-of-a-service"}, "viewer": {"X-Tidegate-Token", "token-of-a-viewer"}}
	definition := strings.Replace(strings.Replace(servetest.Sale("ticket", 9), "{", `{"requires_user":false,`, 1), `"hold_ms":0`, `"hold_ms":900000`, 1)
	servetest.OpenSale(t, internal, "open-day", definition, as["operator"]...)
	bought := func(fields ...string) (id string) {
		t.Helper()
		var o order
		servetest.Until(t, http.StatusAccepted, func() servetest.Answer {
			return servetest.Call("POST", public+"/v1/sales/open-day/orders", `{"item":"ticket"}`, fields...)
		}).Into(t, &o)
		if look(t, p, o.OrderID, "alice").Status != "confirmed" {
			t.Fatal(o)
		}
		return o.OrderID
	}
	alices, id, other := bought("X-User-ID", "alice"), bought("Idempotency-Key", rand.Text()), bought("Idempotency-Key", rand.Text())
	type list struct{ Items []order }

	reference := ""
	for role, fields := range as {
		for _, path := range []string{"/v1/sales/open-day/orders", "/v1/order-events"} {
			var found list
			servetest.Call("GET", internal+path, "", fields...).Into(t, &found)
			slices.SortFunc(found.Items, func(a, b order) int { return slices.Compare(a.Units, b.Units) }) // as they were bought
			if len(found.Items) != 3 || found.Items[0].OrderID != alices {
				t.Fatalf("%s, %s: %+v", role, path, found)
			}
			switch shown := found.Items[1].OrderID; {
			case role != "viewer" && shown != id:
				t.Errorf("%s, %s: %s, want the id", role, path, shown)
			case role == "viewer" && (shown == id || reference != "" && shown != reference):
				t.Errorf("a viewer sees %s in %s, and %s elsewhere", shown, path, reference)
			case role == "viewer":
				reference = shown
			}
		}
	}
	for role, fields := range as { // page by page
		var units []int
		for cursor := ""; ; {
			var page struct {
				Items []order
				Next  string `json:"next_cursor"`
			}
			servetest.Call("GET", internal+"/v1/sales/open-day/orders?limit=1&cursor="+cursor, "", fields...).Into(t, &page)
			for _, o := range page.Items {
				units = append(units, o.Units...)
			}
			if cursor = page.Next; cursor == "" {
				break
			}
			at, err := base64.RawURLEncoding.DecodeString(cursor)
			if text := fmt.Sprintf("%x", at); err != nil || role == "viewer" && (text == strings.ReplaceAll(id, "-", "") || text == strings.ReplaceAll(other, "-", "")) {
				t.Errorf("a viewer's cursor is an order's id: %s, %v", text, err)
			}
		}
		if slices.Sort(units); !slices.Equal(units, []int{1, 2, 3}) {
			t.Errorf("%s finds the units %v page by page", role, units)
		}
	}
	for role, fields := range as {
		for _, name := range []string{id, reference} {
			var o order
			a := servetest.Call("GET", internal+"/v1/orders/"+name, "", fields...)
			a.Into(t, &o)
			if want := map[bool]string{true: reference, false: id}[role == "viewer"]; a.Status != http.StatusOK || o.OrderID != want {
				t.Errorf("%s reads %s: %v, want %s", role, name, a, want)
			}
		}
	}
	for _, tt := range []struct {
		method, url string
		fields      []string
		want        int
	}{
		{"GET", public + "/v1/orders/" + reference, nil, http.StatusNotFound},
		{"POST", public + "/v1/orders/" + reference + "/cancel", nil, http.StatusNotFound},
		{"POST", internal + "/v1/orders/" + reference + "/cancel", as["viewer"], http.StatusForbidden},
		{"GET", public + "/v1/orders/" + id, nil, http.StatusOK},
		{"POST", public + "/v1/orders/" + id + "/cancel", nil, http.StatusOK},
		{"POST", internal + "/v1/orders/" + other + "/cancel", as["operator"], http.StatusOK},
		{"POST", internal + "/v1/orders/" + reference + "/cancel", as["operator"], http.StatusOK}, // again: the same answer
	} {
		if a := servetest.Call(tt.method, tt.url, "", tt.fields...); a.Status != tt.want {
			t.Errorf("%s %s: %v, want %d", tt.method, tt.url, a, tt.want)
		}
	}
	for _, path := range []string{"/v1/audit", "/v1/sales/open-day/orders", "/v1/order-events", "/v1/sales/open-day/verify", "/v1/orders/dead"} {
		a := servetest.Call("GET", internal+path, "", as["viewer"]...)
		if a.Status != http.StatusOK || strings.Contains(string(a.Body), id) || strings.Contains(string(a.Body), other) {
			t.Errorf("%s shows an id: %v", path, a)
		}
		if path == "/v1/audit" && !strings.Contains(string(a.Body), reference) {
			t.Errorf("%s has no reference: %v", path, a)
		}
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if log := p.Output(); strings.Contains(log, id) || strings.Contains(log, other) || !strings.Contains(log, reference) || !strings.Contains(log, alices) {
		t.Errorf("the log has an id of an anonymous order, or no reference, or no id of alice's order:\n%s", log)
	}
}
