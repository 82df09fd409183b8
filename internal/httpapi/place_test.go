package httpapi

import (
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/orders"
)

const placePath = "/v1/sales/flash/orders"

func TestPlace(t *testing.T) {
	for name, body := range map[string]string{
		"quick": `{"item":"shoe","quantity":2}`,
		"huma":  `{"item":"\u0073hoe","quantity":2}`,
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.orders.reserve.Order.Quantity = 2
			w := call(b.Public(), "POST", placePath, body, "Idempotency-Key", "k 1", "Content-Type", "application/json")
			var got map[string]any
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 202 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			poll, _ := got["poll_after_ms"].(float64)
			delete(got, "poll_after_ms")
			want := map[string]any{"order_id": orderID.String(), "status": "accepted", "sale": "flash", "item": "shoe", "quantity": 2.0}
			if len(got) != len(want) || poll < 1 {
				t.Errorf("%v %v", got, poll)
			}
			for k, v := range want {
				if got[k] != v {
					t.Errorf("%s is %v", k, got[k])
				}
			}
			h := w.Header()
			if h.Get("Location") != "/v1/orders/"+orderID.String() || h.Get("Retry-After") != "1" || h.Get("Content-Type") != "application/json" {
				t.Errorf("%v", h)
			}
			if _, replayed := h["Idempotency-Replayed"]; replayed {
				t.Error("not a replay")
			}
			if r := b.orders.requests[0]; r != (orders.Request{Sale: "flash", Item: "shoe", Quantity: 2, User: "ada", Key: "k 1"}) {
				t.Errorf("%+v", r)
			}
			if want := []string{"prepare", "screen", "charge", "reserve"}; !slices.Equal(b.orders.calls, want) {
				t.Errorf("%v", b.orders.calls)
			}
		})
	}
}

func pollAfterOf(t *testing.T, w *httptest.ResponseRecorder) int {
	t.Helper()
	var body struct {
		PollAfterMS int `json:"poll_after_ms"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.PollAfterMS == 0 {
		t.Errorf("%s: %v", w.Body, err)
	}
	return body.PollAfterMS
}

// TestScreenedIsNotCharged: a replay precedes every refusal, and decisions from memory are not charged.
func TestScreenedIsNotCharged(t *testing.T) {
	b := setup(t)
	b.gate.decision = admission.Decision{Reason: admission.RateLimited, Action: rules.Deny}
	b.orders.screen = &orders.Outcome{Order: confirmed, Replayed: true}
	w := call(b.Public(), "POST", placePath, `{"item":"shoe"}`)
	if w.Code != 202 || w.Header().Get("Idempotency-Replayed") != "true" || !strings.Contains(w.Body.String(), `"confirmed"`) {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if p := pollAfterOf(t, w); w.Header().Get("Retry-After") != strconv.Itoa((p+999)/1000) {
		t.Errorf("Retry-After %s, poll_after_ms %d", w.Header().Get("Retry-After"), p)
	}
	b.orders.screen = &orders.Outcome{Reason: orders.ReasonSoldOut}
	w = call(b.Public(), "POST", placePath, `{"item":"shoe"}`)
	if p := problemIn(t, w); p.Reason != "sold_out" || w.Header().Get("RateLimit") != "" {
		t.Errorf("%v %s", w.Header(), w.Body)
	}
	if len(b.gate.asked) != 0 || slices.Contains(b.orders.calls, "reserve") {
		t.Errorf("charged %v, %v", b.gate.asked, b.orders.calls)
	}
}

// TestRepeatsAreNeitherChargedNorRefused: a repeat gets its order, uncharged, whatever the rules say; a new order takes the
// usual two steps.
func TestRepeatsAreNeitherChargedNorRefused(t *testing.T) {
	admitted := admission.Decision{Admitted: true, Action: rules.Allow, Rules: []admission.Verdict{{Rule: "orders", Limit: 10, Admitted: true}}}
	refused := admission.Decision{Reason: admission.RateLimited, Action: rules.Deny}
	banned := admission.Decision{Reason: admission.Banned, Action: rules.Ban}
	stands := &orders.Outcome{Order: confirmed, Replayed: true}
	for _, tt := range []struct {
		name     string
		decision admission.Decision
		seen     bool
		replay   *orders.Outcome
		reserve  orders.Outcome
		status   int
		calls    []string
	}{
		{"new", admitted, false, nil, orders.Outcome{Order: accepted}, 202, []string{"charge", "reserve"}},
		{"remembered", refused, true, stands, orders.Outcome{}, 202, []string{"replay"}},
		{"remembered, and over by now", admitted, true, nil, orders.Outcome{Order: accepted}, 202, []string{"replay", "charge", "reserve"}},
		{"remembered, over by now, and refused", refused, true, nil, orders.Outcome{}, 429, []string{"replay", "charge"}},
		{"known to Redis", admitted, false, stands, *stands, 202, []string{"charge", "reserve", "refund"}},
		{"known to Redis, and refused", refused, false, stands, orders.Outcome{}, 202, []string{"charge", "replay"}},
		{"known to Redis, and banned", banned, false, stands, orders.Outcome{}, 202, []string{"charge", "replay"}},
		{"known to nobody, and refused", refused, false, nil, orders.Outcome{}, 429, []string{"charge", "replay"}},
		{"known to nobody, and banned", banned, false, nil, orders.Outcome{}, 403, []string{"charge", "replay"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := setup(t)
			b.gate.decision, b.orders.seen, b.orders.replay, b.orders.reserve = tt.decision, tt.seen, tt.replay, tt.reserve
			w := call(b.Public(), "POST", placePath, `{"item":"shoe"}`)
			if want := append([]string{"prepare", "screen"}, tt.calls...); w.Code != tt.status || !slices.Equal(b.orders.calls, want) {
				t.Errorf("%d %s, %v, want %d, %v", w.Code, w.Body, b.orders.calls, tt.status, want)
			}
			repeat := w.Header().Get("Idempotency-Replayed") == "true"
			if charged := w.Header().Get("RateLimit") != ""; repeat && charged {
				t.Errorf("%v of a repeat", w.Header())
			}
		})
	}
}

// TestQuestionsAboutRepeatsAreBounded: refused callers cannot make this process query Redis without limit.
func TestQuestionsAboutRepeatsAreBounded(t *testing.T) {
	const n = 200
	b := setup(t)
	b.gate.decision = admission.Decision{Reason: admission.RateLimited, Action: rules.Deny}
	began := time.Now()
	for i := range n {
		if w := call(b.Public(), "POST", placePath, `{"item":"shoe"}`, "Idempotency-Key", strconv.Itoa(i)); w.Code != 429 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	asked := 0
	for _, c := range b.orders.calls {
		if c == "replay" {
			asked++
		}
	}
	if most := 10 + int(time.Since(began)/time.Second) + 1; asked < 10 || asked > most {
		t.Errorf("Redis was asked %d times about %d refused orders, want 10 to %d", asked, n, most)
	}
}

func TestPlaceHostile(t *testing.T) {
	long := strings.Repeat("x", 3<<10)
	for _, tt := range []struct {
		name, body string
		fields     []string
		status     int
		at         string // location of the first violation
	}{
		{"unknown field", `{"item":"shoe","price":0}`, nil, 422, "body.price"},
		{"field in capitals", `{"Item":"shoe"}`, nil, 422, "body"},
		{"unknown field of 3 KiB", `{"item":"shoe","` + long + `":0}`, nil, 422, ""},
		{"item missing", `{"quantity":1}`, nil, 422, "body"},
		{"item is a number", `{"item":1}`, nil, 422, "body.item"},
		{"item is null", `{"item":null}`, nil, 422, "body.item"},
		{"item is an object", `{"item":{}}`, nil, 422, "body.item"},
		{"quantity is text", `{"item":"shoe","quantity":"1"}`, nil, 422, "body.quantity"},
		{"quantity 0", `{"item":"shoe","quantity":0}`, nil, 422, "body.quantity"},
		{"quantity -1", `{"item":"shoe","quantity":-1}`, nil, 422, "body.quantity"},
		{"quantity 1.5", `{"item":"shoe","quantity":1.5}`, nil, 422, "body.quantity"},
		{"quantity 1e9", `{"item":"shoe","quantity":1000000000}`, nil, 422, "body.quantity"},
		{"quantity 1e400", `{"item":"shoe","quantity":1e400}`, nil, 422, "body"},
		{"quantity beyond int64", `{"item":"shoe","quantity":99999999999999999999}`, nil, 422, "body.quantity"},
		{"quantity one too many", `{"item":"shoe","quantity":` + strconv.Itoa(orders.MaxQuota+1) + `}`, nil, 422, "body.quantity"},
		{"quantity is null", `{"item":"shoe","quantity":null}`, nil, 422, "body.quantity"},
		{"item twice", `{"item":"hat","item":"shoe"}`, nil, 422, "body.item"},
		{"array", `[]`, nil, 422, "body"},
		{"null", `null`, nil, 422, "body"},
		{"text", `"shoe"`, nil, 422, "body"},
		{"broken", `{"item":"shoe"`, nil, 422, "body"},
		{"two values", `{"item":"shoe"}{"item":"shoe"}`, nil, 422, "body"},
		{"garbage", "\x00\xff{}", nil, 422, "body"},
		{"empty", "", nil, 422, "body"},
		{"deep", strings.Repeat("[", 4_000), nil, 422, "body"},
		{"deep and closed", `{"item":` + strings.Repeat("[", 2_000) + strings.Repeat("]", 2_000) + `}`, nil, 422, "body"},
		{"4 KiB and one byte", `{"item":"` + strings.Repeat("x", sales.MaxOrder-len(`{"item":""}`)+1) + `"}`, nil, 413, ""},
		{"10 MB", `{"item":"` + strings.Repeat("x", 10<<20) + `"}`, nil, 413, ""},
		{"form", `item=shoe`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, ""},
		{"no type", `{"item":"shoe"}`, []string{"Content-Type", ""}, 415, ""},
		{"text type", `{"item":"shoe"}`, []string{"Content-Type", "text/plain"}, 415, ""},
		{"XML", `{"item":"shoe"}`, []string{"Content-Type", "application/xml"}, 415, ""},
		{"other item", `{"item":"hat"}`, nil, 404, ""},
		{"item of 3 KiB", `{"item":"` + long + `"}`, nil, 404, ""},
		{"item in braces", `{"item":"{}"}`, nil, 404, ""},
		{"item with newline", `{"item":"shoe\n"}`, nil, 404, ""},
		{"item with NUL", `{"item":"shoe\u0000"}`, nil, 404, ""},
		{"emoji item", `{"item":"👟"}`, nil, 404, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := setup(t)
			w := call(b.Public(), "POST", placePath, tt.body, tt.fields...)
			p := problemIn(t, w)
			if p.Status != tt.status {
				t.Fatalf("%d %.300s", p.Status, w.Body)
			}
			if p.Status == 422 && (len(p.Errors) == 0 || !strings.HasPrefix(p.Errors[0].Location, tt.at) || p.Errors[0].Message == "") {
				t.Errorf("%+v", p.Errors)
			}
			if w.Body.Len() > 2000 {
				t.Errorf("%d bytes of answer", w.Body.Len())
			}
			if len(b.gate.asked) != 0 || b.logged.Len() != 0 {
				t.Errorf("asked %v, logged %s", b.gate.asked, b.logged)
			}
		})
	}
}

func TestPlaceAccepts(t *testing.T) {
	for name, tt := range map[string][]string{
		"charset":           {`{"item":"shoe"}`, "Content-Type", "application/json; charset=utf-8"},
		"spaces":            {" {\n\t\"quantity\" : 1 , \"item\" : \"shoe\" }\r\n"},
		"other order":       {`{"quantity":1,"item":"shoe"}`},
		"4 KiB of spaces":   {`{"item":"shoe"}` + strings.Repeat(" ", sales.MaxOrder-len(`{"item":"shoe"}`))},
		"foreign forwarded": {`{"item":"shoe"}`, "X-Forwarded-For", "'; DROP TABLE orders"},
		"no tier, any user": {`{"item":"shoe"}`, "X-User-ID", "Zoë Ω"},
	} {
		b := setup(t)
		w := call(b.Public(), "POST", placePath, tt[0], tt[1:]...)
		if w.Code != 202 || b.orders.requests[0].Quantity != 1 {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// FuzzFastPlace: the fast path, which a charset disables, answers every body as Huma does.
func FuzzFastPlace(f *testing.F) {
	for _, body := range []string{
		`{"item":"shoe","quantity":2}`, `{"quantity":2,"item":"shoe"}`, ` { "item" : "shoe" } `, `{"item":"shoe","quantity":1000}`,
		`{"item":"shoe",}`, `{"item":"shoe","quantity":01}`, `{"item":"shoe","quantity":1.0}`, `{"item":"a","item":"b"}`, `{}`, `{"item":"\u00e9"}`,
	} {
		f.Add(body)
	}
	b := setup(f)
	b.orders.screen = &orders.Outcome{Reason: orders.ReasonSoldOut}
	f.Fuzz(func(t *testing.T, body string) {
		b.orders.requests = nil
		fast := call(b.Public(), "POST", placePath, body)
		asked := b.orders.requests
		b.orders.requests = nil
		slow := call(b.Public(), "POST", placePath, body, "Content-Type", "application/json; charset=utf-8")
		if fast.Code != slow.Code || !slices.Equal(asked, b.orders.requests) {
			t.Fatalf("%q: %d %s %+v, Huma says %d %s %+v", body, fast.Code, fast.Body, asked, slow.Code, slow.Body, b.orders.requests)
		}
	})
}
