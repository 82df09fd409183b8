package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// loggingIn is what the program answers to an attempt to log in.
type loggingIn struct {
	AttemptID string `json:"attempt_id"`
	Decision  string
	Challenge struct{ URL string }
	Device    string
}

func (at *target) logIn(t testing.TB, path, body string) (got loggingIn) {
	t.Helper()
	a := at.send(t, attempt{method: "POST", path: "/v1/login/attempts" + path, body: body})
	if a.Into(t, &got); a.Status != http.StatusOK {
		t.Fatal(a)
	}
	return got
}

// A solution is valid only for its subject and purpose and only once; a device token is valid only for its name.
func (at *target) tokens(g *group) {
	order := func(user, key, solution string) servetest.Answer {
		a := attempt{public: true, method: "POST", path: "/v1/sales/hurdle/orders", body: `{"item":"shoe"}`, fields: []string{"X-User-ID", user, "Idempotency-Key", key}}
		if solution != "" {
			a.fields = append(a.fields, "X-Captcha", solution)
		}
		return at.send(g, a)
	}
	asked := 0
	challenge := func(user string) string {
		var problem struct{ Challenge struct{ URL string } }
		asked++ // under a key of its own: a repeat is not challenged
		a := order(user, fmt.Sprint("asks-", asked), "")
		if a.Into(g, &problem); a.Status != http.StatusForbidden {
			g.Fatal(a)
		}
		return at.public + problem.Challenge.URL
	}
	for _, user := range []string{"hana", "hugo"} {
		if a := order(user, "first", ""); a.Status != http.StatusAccepted {
			g.Fatal(a)
		}
	}
	solution := servetest.Solve(g, challenge("hana"))
	content, err := base64.StdEncoding.DecodeString(solution)
	if err != nil {
		g.Fatal(err)
	}
	changed := func(field string, value any) string {
		fields := map[string]any{}
		if err := json.Unmarshal(content, &fields); err != nil {
			g.Fatal(err)
		}
		if value == nil {
			value = strings.NewReplacer("p=order", "p=login", "expires=1", "expires=9").Replace(fields[field].(string)) + "x=1&"
		}
		fields[field] = value
		b, err := json.Marshal(fields)
		if err != nil {
			g.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(b)
	}
	for range 3 {
		at.logIn(g, "", `{"name":"victim","ip":"192.0.2.1","mode":"report"}`)
	}
	login := at.public + at.logIn(g, "", `{"name":"victim","ip":"192.0.2.1"}`).Challenge.URL
	forged := map[string]string{
		"nonsense": "forged", "an empty object": base64.StdEncoding.EncodeToString([]byte("{}")), "null": base64.StdEncoding.EncodeToString([]byte("null")), "9 kB": strings.Repeat("x", 9000),
		"another number": changed("number", 1), "a negative number": changed("number", -1), "a longer life": changed("salt", nil), "no signature": changed("signature", ""),
		"another's signature": changed("signature", strings.Repeat("a", 64)), "another hash": changed("algorithm", "SHA-1"), "a challenge of its own": changed("challenge", strings.Repeat("0", 64)),
		"of another user": servetest.Solve(g, challenge("hugo")), "of a login": servetest.Solve(g, login),
	}
	for _, name := range slices.Sorted(maps.Keys(forged)) {
		g.try("an order with a solution: "+name, func(t *testing.T) {
			if a := order("hana", "second", forged[name]); a.Status != http.StatusForbidden || !strings.Contains(string(a.Body), "captcha_required") {
				t.Errorf("%d %v", a.Status, a)
			}
		})
	}
	g.try("a solution twice", func(t *testing.T) {
		if a := order("hana", "second", solution); a.Status != http.StatusAccepted {
			t.Fatal(a)
		}
		if a := order("hana", "third", solution); a.Status != http.StatusForbidden {
			t.Error(a)
		}
	})

	log := func(name, more string) string {
		return at.logIn(g, "", fmt.Sprintf(`{"name":%q,"ip":"192.0.2.1"%s}`, name, more)).Decision
	}
	captcha := func(solution string) string { return fmt.Sprintf(`,"captcha":%q`, solution) }
	holder := at.logIn(g, "/"+at.logIn(g, "", `{"name":"holder","ip":"192.0.2.2"}`).AttemptID+"/outcome", `{"result":"success"}`).Device
	device := func(token string) string { return fmt.Sprintf(`,"device":%q`, token) }
	solved := servetest.Solve(g, login)
	for _, tt := range []struct{ name, more string }{
		{"a solution of an order", captcha(servetest.Solve(g, challenge("hana")))},
		{"a forged solution", captcha("forged")},
		{"a forged device", device("forged")},
		{"another's device", device(holder)},
		{"a changed device", device(holder[:len(holder)-4] + "AAAA")},
		{"a device of 5 kB", device(strings.Repeat("d", 5000))},
	} {
		g.try("a login with "+tt.name, func(t *testing.T) {
			if got := log("victim", tt.more); got != "challenge" {
				t.Error(got)
			}
		})
	}
	g.try("a login's solution twice", func(t *testing.T) {
		if got := log("victim", captcha(solved)); got != "allow" {
			t.Fatal(got)
		}
		if got := log("victim", captcha(solved)); got != "challenge" {
			t.Error(got)
		}
	})
}

// Guesses are counted for one name, in whatever spelling, and a client can only settle its own attempts.
func (at *target) login(g *group) {
	const invalid = http.StatusUnprocessableEntity
	asks := func(body string, want int, says string) attempt {
		return attempt{name: body[:min(len(body), 60)], method: "POST", path: "/v1/login/attempts", body: body, want: want, says: says}
	}
	for _, body := range []string{
		`[]`, `{"name":"a"}`, `{"name":"","ip":"192.0.2.3"}`, `{"name":"a","ip":"x"}`, `{"name":"a","ip":"192.0.2.03"}`, `{"name":"a","ip":"192.0.2.3","mode":"drop"}`,
		`{"name":"a","ip":"192.0.2.3","factor":"x y"}`, `{"name":"a","ip":"192.0.2.3","trusted":true}`, `{"name":"a\ud800","ip":"192.0.2.3"}`, `{"name":"a\u0000","ip":"192.0.2.3"}`,
		`{"name":"` + strings.Repeat("n", 2000) + `","ip":"192.0.2.3"}`,
	} {
		at.try(g, asks(body, invalid, ""))
	}
	for range 3 {
		at.logIn(g, "", `{"name":"bob","ip":"192.0.2.4","mode":"report"}`)
	}
	for _, name := range []string{"bob", "BOB", " Bob ", "ｂｏｂ", "bo\u200bb"} {
		at.try(g, asks(fmt.Sprintf(`{"name":%q,"ip":"192.0.2.5","mode":"check"}`, name), http.StatusOK, `"name_failures"`))
	}
	id := at.logIn(g, "", `{"name":"carl","ip":"192.0.2.6"}`).AttemptID
	outcome := func(name, id, result string, want int) attempt {
		return attempt{name: name, method: "POST", path: "/v1/login/attempts/" + id + "/outcome", body: fmt.Sprintf(`{"result":%q}`, result), want: want}
	}
	at.try(g,
		outcome("of a forged attempt", id[:len(id)-4]+"AAAA", "success", http.StatusNotFound),
		outcome("of no attempt", "x", "success", http.StatusNotFound),
		outcome("of another kind", id, "maybe", invalid),
		outcome("failure", id, "failure", http.StatusOK),
		outcome("failure turned into success", id, "success", http.StatusConflict),
		attempt{name: "by the public listener", public: true, method: "POST", path: "/v1/login/attempts", body: `{"name":"a","ip":"192.0.2.3"}`, want: http.StatusNotFound},
	)
	g.try("a hundred guesses at once", func(t *testing.T) {
		const guesses = 100
		decided := make(chan string, guesses)
		for range guesses {
			go func() {
				a := servetest.Call("POST", at.internal+"/v1/login/attempts", `{"name":"dora","ip":"192.0.2.7"}`, "X-Tidegate-Token", operatorToken)
				var got loggingIn
				if json.Unmarshal(a.Body, &got) != nil {
					got.Decision = a.String()
				}
				decided <- got.Decision
			}()
		}
		counts := map[string]int{}
		for range guesses {
			counts[<-decided]++
		}
		if counts["allow"] > 3 || counts["allow"]+counts["delay"]+counts["challenge"] != guesses {
			t.Errorf("%v", counts)
		}
	})
}

// Buyers cannot see, pay or cancel orders of others, take stock they are not entitled to, or have a number misread.
func (at *target) orders(g *group) {
	const place = "/v1/sales/spring/orders"
	const invalid, notFound = http.StatusUnprocessableEntity, http.StatusNotFound
	as := func(name, user, method, path, body string, want int, fields ...string) attempt {
		a := attempt{name: name, public: true, method: method, path: path, body: body, want: want, fields: fields}
		if user != "" {
			a.fields = append(a.fields, "X-User-ID", user)
		}
		return a
	}
	placed := at.send(g, as("", "ann", "POST", place, `{"item":"shoe"}`, 0, "Idempotency-Key", "a"))
	var o order
	if placed.Into(g, &o); placed.Status != http.StatusAccepted {
		g.Fatal(placed)
	}
	own := "/v1/orders/" + o.OrderID
	forged := own[:len(own)-4] + "0000"
	at.try(g,
		as("another's order", "bob", "GET", own, "", notFound),
		as("an order by nobody", "", "GET", own, "", notFound),
		as("an order by the name in capitals", "ANN", "GET", own, "", notFound),
		as("to wait for another's order", "bob", "GET", own+"?wait_ms=1000", "", notFound),
		as("to cancel another's order", "bob", "POST", own+"/cancel", "", notFound),
		as("to pay by the public listener", "ann", "POST", own+"/payment", `{"reference":"r","outcome":"captured"}`, notFound),
		as("a forged id", "ann", "GET", forged, "", notFound),
		as("to cancel a forged id", "ann", "POST", forged+"/cancel", "", notFound),
		as("an id of zeros", "ann", "GET", "/v1/orders/00000000-0000-8000-8000-000000000000", "", notFound),
		as("an id that is none", "ann", "GET", "/v1/orders/1", "", notFound),
		as("an id in braces", "ann", "GET", "/v1/orders/%7B"+o.OrderID+"%7D", "", notFound),
		as("an id as a URN", "ann", "GET", "/v1/orders/urn:uuid:"+o.OrderID, "", notFound),
		as("others' orders in the list", "bob", "GET", place+"?user=ann", "", http.StatusOK),
		as("to define a sale", "ann", "PUT", "/v1/sales/spring", `{}`, http.StatusMethodNotAllowed),
		as("an order without a user", "", "POST", place, `{"item":"shoe"}`, http.StatusUnauthorized, "Idempotency-Key", strings.Repeat("k", 30)),
		as("no key", "eve", "POST", place, `{"item":"shoe"}`, invalid),
		as("a long key", "eve", "POST", place, `{"item":"shoe"}`, invalid, "Idempotency-Key", strings.Repeat("k", 256)),
		as("a key that is no text", "eve", "POST", place, `{"item":"shoe"}`, invalid, "Idempotency-Key", "k\xe9"),
		as("another body under the key", "ann", "POST", place, `{"item":"shoe","quantity":2}`, invalid, "Idempotency-Key", "a"),
		as("a long name", strings.Repeat("u", 300), "POST", place, `{"item":"shoe"}`, invalid, "Idempotency-Key", "e"),
		as("a name with a tab", "a\tb", "POST", place, `{"item":"shoe"}`, invalid, "Idempotency-Key", "e"),
		as("more than the quota", "eve", "POST", place, `{"item":"shoe","quantity":10}`, http.StatusConflict, "Idempotency-Key", "e"),
		as("a long wait", "ann", "GET", own+"?wait_ms=99999999", "", invalid),
		as("a wait that ended before", "ann", "GET", own+"?wait_ms=-1", "", invalid),
		as("a long list", "ann", "GET", place+"?limit=1001", "", invalid),
		as("a cursor of one's own", "ann", "GET", place+"?cursor=%27--", "", invalid),
	)
	for _, body := range []string{
		`null`, `[]`, `"shoe"`, `{}`, `{"item":"shoe","quantity":0}`, `{"item":"shoe","quantity":-1}`, `{"item":"shoe","quantity":1.5}`, `{"item":"shoe","quantity":"1"}`,
		`{"item":"shoe","quantity":1e2}`, `{"item":"shoe","quantity":9223372036854775808}`, `{"item":"shoe","quantity":NaN}`, `{"item":"shoe","price":0}`, `{"item":"shoe","user":"ann"}`,
		`{"ITEM":"shoe"}`, `{"item":"shoe"}{"item":"shoe"}`, `{"item":"shoe",}`, `{"item":"shoe\ud800"}`, "\ufeff\ufeff" + `{"item":"shoe"}`, strings.Repeat("[", 2000),
		`{"item":"shoe","quantity":null}`, `{"item":"none","item":"shoe"}`,
	} {
		at.try(g, as("body "+body[:min(len(body), 50)], "eve", "POST", place, body, invalid, "Idempotency-Key", "e"))
	}
	for _, body := range []string{`{"item":""}`, `{"item":"none"}`, `{"item":"\u0000"}`} {
		at.try(g, as("body "+body, "eve", "POST", place, body, notFound, "Idempotency-Key", "e"))
	}
	at.try(g,
		as("a body of 4 KiB and a byte", "eve", "POST", place, `{"item":"shoe"}`+strings.Repeat(" ", 4<<10-14), http.StatusRequestEntityTooLarge, "Idempotency-Key", "e"),
		as("a body of 70 kB", "eve", "POST", place, `{"item":"`+strings.Repeat("x", 70_000)+`"}`, http.StatusRequestEntityTooLarge, "Idempotency-Key", "e"),
		as("a body without a type", "eve", "POST", place, `{"item":"shoe"}`, http.StatusUnsupportedMediaType, "Idempotency-Key", "e", "Content-Type", ""),
		as("a form", "eve", "POST", place, `{"item":"shoe"}`, http.StatusUnsupportedMediaType, "Idempotency-Key", "e", "Content-Type", "text/plain"),
		as("across sites", "eve", "POST", place, `{"item":"shoe"}`, http.StatusForbidden, "Idempotency-Key", "e", "Sec-Fetch-Site", "cross-site"),
	)
	g.try("a body of 70 kB, slowly, from a client that closes the connection", func(t *testing.T) {
		c := dial(t, at.Addr("public"))
		c.say("POST " + place + " HTTP/1.1\r\nHost: a\r\nX-User-ID: eve\r\nIdempotency-Key: e\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 70000\r\n\r\n")
		for range 7 {
			time.Sleep(20 * time.Millisecond)
			if !c.say(strings.Repeat("x", 10_000)) {
				t.Error("the connection ends before the body does")
			}
		}
		if got := c.statuses(); fmt.Sprint(got) != "[413]" {
			t.Errorf("answered %v, want 413 and the end", got)
		}
	})
	g.try("a body of 5 kB in chunks", func(t *testing.T) {
		c := dial(t, at.Addr("public"))
		c.say("POST " + place + " HTTP/1.1\r\nHost: a\r\nX-User-ID: eve\r\nIdempotency-Key: e\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
		c.say("1388\r\n" + strings.Repeat(" ", 5000) + "\r\nf\r\n" + `{"item":"shoe"}` + "\r\n0\r\n\r\n")
		if got := c.statuses(); fmt.Sprint(got) != "[413]" {
			t.Errorf("answered %v, want 413 and the end", got)
		}
	})
	g.try("made-up ids of the future and of unknown items", func(t *testing.T) {
		known := 0 // one of 16,384 has the right MAC
		for _, year := range []string{"ffff", "f000", "e000", "d000", "7fff", "3000"} {
			for _, method := range []string{"GET", "POST"} {
				id := "/v1/orders/" + year + o.OrderID[4:14] + "8fff" + o.OrderID[18:]
				if method == "POST" {
					id += "/cancel"
				}
				if a := at.send(t, as("", "ann", method, id, "", 0)); a.Status != notFound || !strings.Contains(string(a.Body), "unknown_order") {
					known++
					t.Logf("%s %s: %v", method, id, a)
				}
			}
		}
		if known > 2 {
			t.Errorf("%d calls were not answered 404", known)
		}
	})
	at.repeats(g)
	g.try("none of these took a unit", func(t *testing.T) {
		a := at.send(t, attempt{public: true, path: place, fields: []string{"X-User-ID", "eve"}})
		if a.Status != http.StatusOK || !strings.Contains(string(a.Body), `"items":[]`) {
			t.Error(a)
		}
	})
}

// A repetition of an existing order is neither counted nor refused, and does not let other requests pass a rule.
func (at *target) repeats(g *group) {
	order := func(t testing.TB, sale, user, key string, fields ...string) servetest.Answer {
		return at.send(t, attempt{
			public: true, method: "POST", path: "/v1/sales/" + sale + "/orders", body: `{"item":"shoe"}`, fields: append(fields, "X-User-ID", user, "Idempotency-Key", key),
		})
	}
	many := func(t *testing.T, sale, user, key string, fields ...string) {
		t.Helper()
		for i := range 20 {
			a := order(t, sale, user, key, fields...)
			if a.Status != http.StatusAccepted || a.Header.Get("Idempotency-Replayed") != "true" || a.Header.Get("RateLimit") != "" {
				t.Fatalf("repeat %d: %d %v, RateLimit %q", i+1, a.Status, a, a.Header.Get("RateLimit"))
			}
		}
	}
	for _, sale := range []string{"hurdle", "burst"} { // which let one order through
		if a := order(g, sale, "rita", "own"); a.Status != http.StatusAccepted || a.Header.Get("RateLimit") == "" {
			g.Fatal(a)
		}
	}
	g.try("repeats where another order is challenged", func(t *testing.T) {
		many(t, "hurdle", "rita", "own")
		if a := order(t, "hurdle", "rita", "new"); a.Status != http.StatusForbidden || !strings.Contains(string(a.Body), "captcha_required") {
			t.Errorf("a new one: %v", a)
		}
	})
	g.try("repeats with a forged solution", func(t *testing.T) { many(t, "hurdle", "rita", "own", "X-Captcha", "forged") })
	g.try("repeats where refusals ban", func(t *testing.T) {
		many(t, "burst", "rita", "own")
		if a := order(t, "burst", "rita", "new"); a.Status != http.StatusTooManyRequests {
			t.Errorf("a new one: %v", a)
		}
	})
	g.try("repeats under a ban", func(t *testing.T) {
		if a := at.send(t, attempt{method: "PUT", path: "/v1/bans/user/rita", body: `{"for_ms":3600000}`}); a.Status != http.StatusOK {
			t.Fatal(a)
		}
		many(t, "burst", "rita", "own")
		if a := order(t, "burst", "rita", "new"); a.Status != http.StatusForbidden || !strings.Contains(string(a.Body), "banned") {
			t.Errorf("a new one: %v", a)
		}
	})
	g.try("another's key under a challenge", func(t *testing.T) {
		if a := order(t, "hurdle", "sam", "first"); a.Status != http.StatusAccepted {
			t.Fatal(a)
		}
		if a := order(t, "hurdle", "sam", "own"); a.Status != http.StatusForbidden || strings.Contains(string(a.Body), "order_id") {
			t.Error(a)
		}
	})
}
