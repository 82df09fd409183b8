package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/history"
	"github.com/tidegate/tidegate/login"
	"github.com/tidegate/tidegate/orders"
)

// fakeAudit keeps events, the newest first, unless it fails.
type fakeAudit struct {
	mu     sync.Mutex
	events []history.Change
	err    error
}

func (f *fakeAudit) Record(ctx context.Context, e history.Change) error {
	if err := cmp.Or(f.err, ctx.Err()); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append([]history.Change{e}, f.events...)
	return nil
}

func (f *fakeAudit) List(_ context.Context, after string, limit int) ([]history.Change, error) {
	found := f.events
	if after != "" {
		found = found[slices.IndexFunc(found, func(e history.Change) bool { return e.ID == after })+1:]
	}
	return found[:min(limit, len(found))], f.err
}

// last returns the only event since the previous call.
func (f *fakeAudit) last(t *testing.T) history.Change {
	t.Helper()
	defer func() { f.events = nil }()
	if len(f.events) != 1 {
		t.Fatalf("want one event, have %+v", f.events)
	}
	return f.events[0]
}

const (
	bossToken = "a-token-of-the-boss"
	shopToken = "a-token-of-the-shop"
)

// twoTokens sets a token of the operator boss and one of a service.
func twoTokens(t *testing.T) func(*Config) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(file, []byte("[{name: boss, role: operator, token: "+bossToken+"}, {name: shop, role: admit, token: "+shopToken+"}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(cfg *Config) {
		var err error
		if cfg.Tokens, err = auth.LoadTokens(file, false, cfg.Logger); err != nil {
			t.Fatal(err)
		}
	}
}

func withAudit(t *testing.T) (*bed, *fakeAudit) {
	t.Helper()
	kept := &fakeAudit{}
	logins, err := login.New(login.NewMemoryStore(), rules.Default, login.Options{Secret: []byte("sixteen bytes or more")})
	if err != nil {
		t.Fatal(err)
	}
	b := setup(t, withSemaphores(t), withRooms(t), twoTokens(t), func(cfg *Config) { cfg.Audit, cfg.Login = kept, logins })
	return b, kept
}

// asService are the operations that services perform with their token: changes of orders are in the feed of order events.
var asService = []string{
	"place-order", "pay-order", "admit", "admit-batch", "login-attempt", "login-outcome", "acquire-permit", "renew-permit",
	"join-room", "claim-turn", "leave-room", "vwr-assign-queue-num", "vwr-generate-token", "vwr-update-session",
	"release-permit", // of their own; see TestForcedRelease, and of payments TestWhatOperatorsDoByHand
}

// TestEveryChangeIsKept: every change by an operator stores an event. A new operation that is not an operator's must be listed
// here.
func TestEveryChangeIsKept(t *testing.T) {
	b, kept := withAudit(t)
	filled := regexp.MustCompile(`\{\w+\}`)
	seen := 0
	for path, item := range documentOf(t, b.internal)["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			id := op.(map[string]any)["operationId"].(string)
			if method == "get" || strings.HasPrefix(id, "authz-") {
				continue
			}
			body := ""
			if op.(map[string]any)["requestBody"] != nil {
				body = "{}"
			}
			at := filled.ReplaceAllString(path, "x")
			kept.events = nil
			call(b.Internal(), strings.ToUpper(method), at, body, "X-Tidegate-Token", bossToken)
			if slices.Contains(asService, id) {
				if len(kept.events) != 0 {
					t.Errorf("%s: %+v", id, kept.events)
				}
				continue
			}
			seen++
			target := strings.NewReplacer("/orders/x", "/orders/…", "/orders/dead/x", "/orders/dead/…").Replace(at) // x may be somebody's id, written in another way
			if e := kept.last(t); e.Actor != "boss" || e.Action != id || e.Target != target || e.At.IsZero() || e.Outcome == "" || e.RequestID == "" {
				t.Errorf("%s: %+v", id, e)
			}
			w := call(b.Internal(), strings.ToUpper(method), at, body, "X-Tidegate-Token", shopToken)
			if id == "cancel-order" { // which services call too
				if len(kept.events) != 0 {
					t.Errorf("%s by a service: %+v", id, kept.events)
				}
				continue
			}
			if e := kept.last(t); w.Code != 403 || e.Actor != "shop" || e.Action != id || e.Outcome != "forbidden" || e.Detail != "" {
				t.Errorf("%s by a service: %d, %+v", id, w.Code, e)
			}
		}
	}
	if seen < 11 {
		t.Errorf("only %d changes are documented", seen)
	}
}

func TestWhatIsKept(t *testing.T) {
	for _, tt := range []struct {
		name, method, path, body string
		prepare                  func(*bed)
		outcome, detail          string
	}{
		{"a sale", "PUT", "/v1/sales/flash", definition, nil, "done", `"items":[{"item":"shoe"`},
		{"a sale by force", "PUT", "/v1/sales/flash?force=true", definition, nil, "done", `{"force":true,"starts_at":"2026-11-21T12:00:00+01:00",`},
		{"a switch", "POST", "/v1/sales/flash/pause", "", nil, "done", ""},
		{"one that is refused", "POST", "/v1/sales/none/pause", "", nil, "unknown_sale", ""},
		{"one that fails", "POST", "/v1/sales/flash/pause", "", func(b *bed) { b.orders.err = orders.ErrUnavailable }, "store_unavailable", ""},
		{"a wrong body", "PUT", "/v1/bans/user/ann", `{"for_ms":0,"reason":"x"}`, nil, "invalid", ""},
		{"a ban", "PUT", "/v1/bans/user/ann", `{"for_ms":1,"reason":"<b>\u0000"}`, nil, "done", `"reason":"\u003cb\u003e\u0000"`},
		{"a ban that nobody has", "DELETE", "/v1/bans/user/ann", "", nil, "unknown_ban", ""},
		{"rules", "POST", "/v1/rules/reload", "", nil, "done", ""},
		{"wrong rules", "POST", "/v1/rules/reload", "", func(b *bed) { b.gate.err = &rules.Error{Problem: "x"} }, "invalid", ""},
		{"a semaphore", "PUT", "/v1/semaphores/own", `{"limit":3}`, nil, "done", `{"limit":3,"lease_ms":15000}`},
		{"login", "DELETE", "/v1/login/subjects?name=hunter2&ip=192.0.2.1", "", nil, "done", `{"factor":"password","ip":"192.0.2.1","reference":"`},
		{"a name like a secret's place", "PUT", "/v1/bans/user/x%2Fpermits%2Feve", `{"for_ms":1}`, nil, "done", `{"for_ms":1}`},
		{"a wrong name", "PUT", "/v1/bans/user/%00%ff%0a", `{"for_ms":1}`, nil, "invalid", `{"for_ms":1}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, kept := withAudit(t)
			if tt.prepare != nil {
				tt.prepare(b)
			}
			call(b.Internal(), tt.method, tt.path, tt.body, "X-Tidegate-Token", bossToken, "X-Request-Id", "r-1")
			e := kept.last(t)
			if e.Actor != "boss" || e.Outcome != tt.outcome || e.RequestID != "r-1" || !strings.Contains(e.Detail, tt.detail) || (tt.detail == "") != (e.Detail == "") {
				t.Errorf("%+v", e)
			}
			if strings.Contains(tt.path, "eve") && e.Target != "/v1/bans/user/x/permits/eve" {
				t.Errorf("who is banned? %q", e.Target)
			}
			if strings.Contains(e.Detail+e.Target, "hunter2") || strings.ContainsAny(e.Target, "\x00\n") || !utf8.ValidString(e.Target) {
				t.Errorf("%+q", e)
			}
		})
	}
}

// TestWhatOperatorsDoByHand: operations of services store an event if an operator calls them.
func TestWhatOperatorsDoByHand(t *testing.T) {
	const capture = `{"reference":"by hand","outcome":"captured"}`
	b, kept := withAudit(t)
	at := "/v1/orders/" + b.orders.found.ID.String()
	call(b.Internal(), "POST", at+"/cancel", "", "X-Tidegate-Token", bossToken)
	if e := kept.last(t); e.Actor != "boss" || e.Action != "cancel-order" || e.Target != at+"/cancel" || e.Outcome != "done" {
		t.Errorf("%+v", e)
	}
	call(b.Internal(), "POST", at+"/payment", capture, "X-Tidegate-Token", bossToken)
	reference := "/v1/orders/" + b.orders.Shown(b.orders.found.ID, "").String() // who pays is not known here
	if e := kept.last(t); e.Actor != "boss" || e.Action != "pay-order" || e.Target != reference+"/payment" || e.Outcome != "done" || !strings.Contains(e.Detail, "by hand") {
		t.Errorf("%+v", e)
	}
	one, err := auth.NewTokens(bossToken, "")
	if err != nil {
		t.Fatal(err)
	}
	single := setup(t, func(cfg *Config) { cfg.Audit, cfg.Tokens = kept, one }) // anyone may have the single token
	for token, h := range map[string]http.Handler{shopToken: b.Internal(), bossToken: single.Internal()} {
		call(h, "POST", at+"/cancel", "", "X-Tidegate-Token", token)
		call(h, "POST", at+"/payment", capture, "X-Tidegate-Token", token)
	}
	if len(kept.events) != 0 || len(b.orders.calls) != 4 || len(single.orders.calls) != 2 {
		t.Errorf("%+v after %v and %v", kept.events, b.orders.calls, single.orders.calls)
	}
}

// TestEventsAreBounded: an event stays small, however large the request.
func TestEventsAreBounded(t *testing.T) {
	b, kept := withAudit(t)
	items := strings.TrimSuffix(strings.Repeat(`{"item":"shoe","stock":1},`, 900), ",")
	body := `{"starts_at":"2030-01-01T00:00:00Z","ends_at":"2030-01-02T00:00:00Z","items":[` + items + `]}`
	call(b.Internal(), "PUT", "/v1/sales/"+strings.Repeat("x", 60000), body, "X-Tidegate-Token", bossToken)
	if e := kept.last(t); len(e.Detail) < 2000 || len(e.Detail) > 2100 || len(e.Target) > 1000 {
		t.Errorf("%d and %d bytes", len(e.Detail), len(e.Target))
	}
}

// TestAPanicIsKept: a panic is logged too.
func TestAPanicIsKept(t *testing.T) {
	b, kept := withAudit(t)
	b.gate.rules = nil
	if w := call(b.Internal(), "POST", "/v1/rules/reload", "", "X-Tidegate-Token", bossToken); w.Code != 500 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if e := kept.last(t); e.Outcome != "internal" {
		t.Errorf("%+v", e)
	}
}

// TestAChangeOfACallerWhoHangsUpIsKept: a change is logged although its caller disconnects.
func TestAChangeOfACallerWhoHangsUpIsKept(t *testing.T) {
	b, kept := withAudit(t)
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	call(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.Internal().ServeHTTP(w, r.WithContext(gone)) }),
		"POST", "/v1/sales/flash/pause", "", "X-Tidegate-Token", bossToken)
	if e := kept.last(t); e.Action != "pause-sale" || e.Outcome != "done" || b.orders.to != orders.SwitchPaused {
		t.Errorf("%+v", e)
	}
}

// TestForcedRelease: operators see an id that releases a permit, which stores an event. The holder's own id keeps working.
func TestForcedRelease(t *testing.T) {
	b, kept := withAudit(t)
	h := b.Internal()
	const permits = "/v1/semaphores/report/permits"
	var own struct {
		ID    string `json:"permit_id"`
		Token int64  `json:"fencing_token"`
	}
	if err := json.Unmarshal(call(h, "POST", permits, `{"holder":"ada"}`, "X-Tidegate-Token", shopToken).Body.Bytes(), &own); err != nil || own.ID == "" {
		t.Fatal(err)
	}
	var seen struct{ Holders []map[string]any }
	if err := json.Unmarshal(call(h, "GET", "/v1/semaphores/report", "", "X-Tidegate-Token", bossToken).Body.Bytes(), &seen); err != nil || len(seen.Holders) != 1 {
		t.Fatalf("%v %v", seen, err)
	}
	shown := seen.Holders[0]["permit_id"].(string)
	for _, step := range []struct {
		method, id, token string
		status            int
	}{
		{"PUT", shown, bossToken, 410},    // it renews nothing
		{"DELETE", shown, shopToken, 422}, // and a service that obtained it cannot release with it
		{"PUT", own.ID, shopToken, 200},
		{"DELETE", shown, bossToken, 204},
		{"PUT", own.ID, shopToken, 410},
	} {
		if w := call(h, step.method, permits+"/"+step.id, "", "X-Tidegate-Token", step.token); w.Code != step.status {
			t.Errorf("%+v: %d %s", step, w.Code, w.Body)
		}
	}
	e := kept.last(t)
	if e.Actor != "boss" || e.Action != "release-permit" || e.Target != permits+"/…" || e.Outcome != "done" ||
		!strings.Contains(e.Detail, `"holder":"ada"`) || strings.Contains(e.Detail, "permit_id") {
		t.Errorf("%+v", e)
	}
}

// TestAChangeWithoutTheAuditLog: changes by operators work while the database is down; the log names the missing event.
func TestAChangeWithoutTheAuditLog(t *testing.T) {
	b, kept := withAudit(t)
	kept.err = errors.New("no database")
	if w := call(b.Internal(), "POST", "/v1/sales/flash/pause", "", "X-Tidegate-Token", bossToken); w.Code != 200 || b.orders.to != orders.SwitchPaused {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	logged := b.logged.String()
	for _, want := range []string{"level=ERROR", "missing in the audit log", "actor=boss", "action=pause-sale", "path=/v1/sales/flash/pause", "outcome=done", "no database"} {
		if !strings.Contains(logged, want) {
			t.Errorf("no %s in %s", want, logged)
		}
	}
}

func TestAuditIsListed(t *testing.T) {
	b, kept := withAudit(t)
	for _, verb := range []string{"open", "pause", "close"} {
		call(b.Internal(), "POST", "/v1/sales/flash/"+verb, "", "X-Tidegate-Token", bossToken)
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("X-Tidegate-Token", bossToken)
		b.Internal().ServeHTTP(w, r)
	})
	var actions []string
	for cursor := ""; ; {
		var list struct {
			Items []struct{ Action string }
			Next  *string `json:"next_cursor"`
		}
		w := answers(t, h, "GET", "/v1/audit?limit=2&cursor="+cursor, "", 200)
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
			t.Fatal(err)
		}
		for _, e := range list.Items {
			actions = append(actions, e.Action)
		}
		if list.Next == nil {
			break
		}
		cursor = *list.Next
	}
	if !slices.Equal(actions, []string{"close-sale", "pause-sale", "open-sale"}) || len(kept.events) != 3 {
		t.Errorf("%v: reading leaves no event: %d", actions, len(kept.events))
	}
	kept.err = history.ErrUnavailable
	answers(t, h, "GET", "/v1/audit", "", 503)
	if w := call(b.Internal(), "GET", "/v1/audit", "", "X-Tidegate-Token", shopToken); w.Code != 403 {
		t.Errorf("a service reads what operators did: %d", w.Code)
	}
}
