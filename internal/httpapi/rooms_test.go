package httpapi

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/httpapi/route"
	"github.com/tidegate/tidegate/internal/testenv/databases"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/waitingroom"
	"github.com/tidegate/tidegate/waitingroom/draw"
)

// withRooms gives an API waiting rooms, with the store of the embedded server.
func withRooms(t *testing.T, change ...func(*waitingroom.Options)) func(*Config) {
	t.Helper()
	return withRoomsIn(t, databases.OpenSQLite(t), change...)
}

func withRoomsIn(t *testing.T, db *sql.DB, change ...func(*waitingroom.Options)) func(*Config) {
	t.Helper()
	return func(cfg *Config) {
		opts := waitingroom.Options{Secret: []byte(strings.Repeat("r", 32)), Logger: cfg.Logger}
		for _, c := range change {
			c(&opts)
		}
		service := waitingroom.New(waitingroom.SQLite(db, &sync.Mutex{}), opts)
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = service.Run(ctx) })
		t.Cleanup(func() { cancel(); running.Wait() })
		cfg.Rooms = service
	}
}

const (
	door      = "/v1/rooms/door"
	doorPlace = door + "/place"
)

// definitionOf returns the definition of a room that starts so long from now, with more fields.
func definitionOf(mode string, starts time.Duration, more string) string {
	now := time.Now().UTC()
	return fmt.Sprintf(`{"mode":%q,"gather_at":%q,"starts_at":%q%s}`, mode, now.Add(-time.Hour).Format(time.RFC3339Nano), now.Add(starts).Format(time.RFC3339Nano), more)
}

func into[T any](t *testing.T, w *httptest.ResponseRecorder) (v T) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return v
}

type seen struct {
	State, Pass, Token, Outlook string
	Number, Position            int64
	PollAfterMS                 int64 `json:"poll_after_ms"`
}

// TestVisit: joining, waiting, claiming and leaving, each of it also twice.
func TestVisit(t *testing.T) {
	b := setup(t, withRooms(t))
	h, operate := b.Public(), b.Internal()
	definition := definitionOf("fifo", -time.Minute, `,"rate_per_min":600`)
	answers(t, operate, "PUT", door, definition, 201)
	answers(t, operate, "PUT", door, definition, 200)
	if w := answers(t, h, "GET", door, "", 200); w.Header().Get("Cache-Control") != "max-age=1" {
		t.Errorf("%v", w.Header())
	}
	answers(t, h, "GET", doorPlace, "", 404)
	answers(t, h, "DELETE", doorPlace, "", 404)
	answers(t, h, "POST", doorPlace+"/claim", "", 404)
	if w := answers(t, h, "POST", doorPlace, `{"quantity":2}`, 201); w.Header().Get("Location") != doorPlace {
		t.Errorf("%v", w.Header())
	}
	p := into[seen](t, answers(t, h, "POST", doorPlace, "", 200))
	if p.Number != 1 || p.Token == "" || p.Outlook != "likely" {
		t.Errorf("%+v", p)
	}
	w := answers(t, h, "GET", doorPlace+"?wait_ms=30000&while=waiting", "", 200)
	if p = into[seen](t, w); p.State != "turn" || p.Position != 1 || w.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("%s", w.Body)
	}
	first := into[seen](t, answers(t, h, "POST", doorPlace+"/claim", "", 200))
	again := into[seen](t, answers(t, h, "POST", doorPlace+"/claim", "", 200))
	if first.State != "admitted" || first.Pass == "" || first.Pass != again.Pass {
		t.Errorf("%+v, then %+v", first, again)
	}
	if other := into[seen](t, call(h, "GET", doorPlace, "")); other.Pass != first.Pass { // another device
		t.Errorf("%+v", other)
	}
	verified(t, h, first.Pass, "ada")
	answers(t, operate, "PUT", door, definitionOf("draw", -time.Minute, ``), 409) // it has begun
	answers(t, operate, "GET", door+"/places?user=ada", "", 200)
	answers(t, operate, "GET", door+"/verify", "", 200)
	answers(t, operate, "GET", "/v1/rooms", "", 200)
	answers(t, h, "DELETE", doorPlace, "", 204)
	answers(t, h, "DELETE", doorPlace, "", 204)
	if p := into[seen](t, call(h, "POST", doorPlace, "")); p.Number != 2 {
		t.Errorf("joined after leaving: %+v", p)
	}
	if got := call(operate, "GET", door+"/places.csv", "").Body.String(); strings.Count(got, "\n") != 3 || !strings.Contains(got, "\n1,ada,left,1,2,") {
		t.Errorf("%s", got)
	}
}

// verified checks a pass with nothing but the published keys.
func verified(t *testing.T, h http.Handler, pass, user string) {
	t.Helper()
	keys := into[struct{ Keys []struct{ Kid, X string } }](t, answers(t, h, "GET", "/.well-known/jwks.json", "", 200))
	parts := strings.Split(pass, ".")
	decode := func(text string) []byte {
		raw, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	if len(parts) != 3 || len(keys.Keys) != 1 || !ed25519.Verify(decode(keys.Keys[0].X), []byte(parts[0]+"."+parts[1]), decode(parts[2])) {
		t.Fatalf("%s is not signed by %+v", pass, keys)
	}
	var header struct{ Alg, Kid string }
	var claims struct {
		Aud, Sub, Jti string
		Exp, Nbf      int64
	}
	if json.Unmarshal(decode(parts[0]), &header) != nil || header.Alg != "EdDSA" || header.Kid != keys.Keys[0].Kid {
		t.Errorf("%s", decode(parts[0]))
	}
	if err := json.Unmarshal(decode(parts[1]), &claims); err != nil || claims.Aud != "door" || claims.Sub != user || claims.Jti == "" || claims.Exp <= claims.Nbf {
		t.Errorf("%s %v", decode(parts[1]), err)
	}
}

// admittedTo joins the room door and claims the turn.
func admittedTo(t *testing.T, h http.Handler, user string) (pass string) {
	t.Helper()
	call(h, "POST", doorPlace, "", "X-User-ID", user)
	call(h, "GET", doorPlace+"?wait_ms=30000&while=waiting", "", "X-User-ID", user)
	w := call(h, "POST", doorPlace+"/claim", "", "X-User-ID", user)
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return into[seen](t, w).Pass
}

// TestAuthzAsksForAPass: a gateway passes on who was admitted, and nobody else.
func TestAuthzAsksForAPass(t *testing.T) {
	b := setup(t, withRooms(t))
	h, operate := b.Public(), b.Internal()
	call(operate, "PUT", door, definitionOf("fifo", -time.Minute, `,"rate_per_min":600`))
	call(operate, "PUT", "/v1/rooms/other", definitionOf("fifo", -time.Minute, ``))
	pass := admittedTo(t, h, "ada")
	asked := []string{"X-Forwarded-Uri", "/pay", "X-Forwarded-Method", "GET"}
	for _, tt := range []struct {
		query  string
		fields []string
		status int
		body   string
	}{
		{"?room=door", []string{"X-Waiting-Room-Pass", pass}, 200, ""},
		{"?room=door", []string{"X-Waiting-Room-Pass", pass, "X-User-ID", ""}, 200, ""},
		{"?room=door", []string{"Authorization", "Bearer " + pass}, 200, ""},
		{"?room=door", []string{"X-Waiting-Room-Pass", pass, "X-User-ID", "bob"}, 403, "another user's"},
		{"?room=door", nil, 403, `"room":"/v1/rooms/door"`},
		{"?room=door&deny=403", nil, 403, `"reason":"turn_required"`},
		{"?room=door", []string{"X-Waiting-Room-Pass", pass + "x"}, 403, "turn_required"},
		{"?room=door", []string{"X-Waiting-Room-Pass", strings.Repeat("x.", 5000)}, 403, "turn_required"},
		{"?room=other", []string{"X-Waiting-Room-Pass", pass}, 403, `"room":"/v1/rooms/other"`},
		{"?room=none", []string{"X-Waiting-Room-Pass", pass}, 404, "unknown_room"},
		{"?room=", nil, 404, "unknown_room"},
		{"?room=..%2Fx", nil, 404, "unknown_room"},
		{"?room=door&room=other", []string{"X-Waiting-Room-Pass", pass}, 422, "given once"},
		{"", nil, 200, ""},
	} {
		w := call(operate, "GET", "/v1/authz"+tt.query, "", append(asked[:4:4], tt.fields...)...)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.body) {
			t.Errorf("%s %.80v: %d %s", tt.query, tt.fields, w.Code, w.Body)
		}
		if tt.status == 200 && tt.query != "" && w.Header().Get("X-User-ID") != "ada" || tt.status == 403 && w.Header().Get("Link") == "" {
			t.Errorf("%s: %v", tt.query, w.Header())
		}
	}
	given := admittedTo(t, h, "eve")
	if w := call(operate, "GET", "/v1/authz?room=door", "", append(asked[:4:4], "X-Waiting-Room-Pass", given, "X-User-ID", "eve")...); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	call(h, "DELETE", doorPlace, "", "X-User-ID", "eve")
	if w := call(operate, "GET", "/v1/authz?room=door", "", append(asked[:4:4], "X-Waiting-Room-Pass", given, "X-User-ID", "eve")...); w.Code != 403 || !strings.Contains(w.Body.String(), "turn_required") {
		t.Errorf("a pass that was given up: %d %s", w.Code, w.Body)
	}
	if w := call(operate, "GET", "/v1/authz/pay?room=door", ""); w.Code != 200 { // the query is the client's
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if got := b.gate.asked[len(b.gate.asked)-1].User; got != "ada" {
		t.Errorf("asked about %q", got)
	}
	call(operate, "GET", "/v1/authz?room=door", "", append(asked[:4:4], "X-User-ID", "", "X-Waiting-Room-Pass", pass)...)
	if got := b.gate.asked[len(b.gate.asked)-1].User; got != "ada" {
		t.Errorf("the rules were asked about %q, and the pass is ada's", got)
	}
	b.gate.decision = admission.Decision{Reason: admission.Banned}
	if w := call(operate, "GET", "/v1/authz?room=door", "", append(asked[:4:4], "X-Waiting-Room-Pass", pass)...); w.Code != 403 || !strings.Contains(w.Body.String(), "banned") {
		t.Errorf("a pass after a ban: %d %s", w.Code, w.Body)
	}
	b.gate.decision = admission.Decision{Admitted: true}
	call(operate, "POST", door+"/close", "")
	if w := call(operate, "GET", "/v1/authz?room=door", "", asked...); w.Code != 200 {
		t.Errorf("of a closed room: %d %s", w.Code, w.Body)
	}
}

// TestRoomRefusals: every refusal of a visitor, in words that say what is right.
func TestRoomRefusals(t *testing.T) {
	b := setup(t, withRooms(t))
	h, operate := b.Public(), b.Internal()
	call(operate, "PUT", door, definitionOf("draw", time.Hour, ""))
	call(operate, "PUT", "/v1/rooms/later", fmt.Sprintf(`{"mode":"fifo","starts_at":%q}`, time.Now().Add(90*time.Second).UTC().Format(time.RFC3339Nano)))
	call(operate, "PUT", "/v1/rooms/over", definitionOf("fifo", -time.Minute, ""))
	call(operate, "POST", "/v1/rooms/over/close", "")
	call(operate, "PUT", "/v1/rooms/open", definitionOf("fifo", -time.Minute, `,"requires_user":false`))
	call(h, "POST", doorPlace, "")
	for _, tt := range []struct {
		method, path, body string
		fields             []string
		status             int
		reason, text       string
	}{
		{"POST", doorPlace + "/claim", "", nil, 409, "not_your_turn", `the turn has not come","poll_after_ms":`},
		{"GET", "/v1/rooms/none", "", nil, 404, "unknown_room", "no such waiting room"},
		{"GET", "/v1/rooms/UPPER", "", nil, 404, "unknown_room", ""},
		{"GET", "/v1/rooms/%00%ff%2F..", "", nil, 404, "unknown_room", ""},
		{"GET", "/v1/rooms/" + strings.Repeat("x", 5000), "", nil, 404, "unknown_room", ""},
		{"POST", "/v1/rooms/none/place", "", nil, 404, "unknown_room", ""},
		{"GET", "/v1/rooms/none/events", "", nil, 404, "unknown_room", ""},
		{"GET", "/v1/rooms/none/draw.csv", "", nil, 404, "unknown_room", ""},
		{"DELETE", "/v1/rooms/none/place", "", nil, 404, "unknown_room", ""},
		{"GET", doorPlace, "", []string{"X-User-ID", "bob"}, 404, "unknown_place", "no place"},
		{"GET", doorPlace, "", []string{"X-User-ID", "bob", "X-Place-Token", "AAAA"}, 404, "unknown_place", ""},
		{"GET", "/v1/rooms/open/place", "", []string{"X-User-ID", "", "X-Place-Token", strings.Repeat("A", 9000)}, 404, "unknown_place", ""},
		{"DELETE", "/v1/rooms/open/place", "", []string{"X-User-ID", ""}, 404, "unknown_place", ""},
		{"POST", doorPlace, "", []string{"X-User-ID", ""}, 401, "unauthenticated", ""},
		{"GET", doorPlace, "", []string{"X-User-ID", ""}, 401, "unauthenticated", ""},
		{"POST", "/v1/rooms/later/place", "", nil, 409, "not_started", "The room has not opened."},
		{"POST", "/v1/rooms/over/place", "", nil, 409, "ended", "The room has ended."},
		{"GET", door + "/draw.csv", "", nil, 409, "conflict", "has not drawn"},
		{"POST", doorPlace, "", []string{"X-User-ID", "a\u200bb"}, 422, "invalid", `"location":"user","message":"contains U+200B, and must be printable"`},
		{"POST", doorPlace, `{"lane":"vip"}`, nil, 422, "invalid", `"location":"body.lane","message":"must be left out: room door has no lanes"`},
		{"POST", doorPlace, `{"quantity":0}`, nil, 422, "invalid", "body.quantity"},
		{"POST", doorPlace, `{"quantity":1001}`, nil, 422, "invalid", "body.quantity"},
		{"POST", doorPlace, `{"quantity":null}`, nil, 422, "invalid", "body.quantity"},
		{"POST", doorPlace, `{"quantity":1,"quantity":2}`, nil, 422, "invalid", "given once"},
		{"POST", doorPlace, `{"user":"bob"}`, nil, 422, "invalid", "body.user"},
		{"POST", doorPlace, `[]`, nil, 422, "invalid", "body"},
		{"POST", doorPlace, `{`, nil, 422, "invalid", "body"},
		{"POST", doorPlace, strings.Repeat(" ", 70_000), nil, 413, "too_large", ""},
		{"POST", doorPlace, `{}`, []string{"Content-Type", "text/plain"}, 415, "unsupported_media_type", ""},
		{"POST", doorPlace, `{}`, []string{"Sec-Fetch-Site", "cross-site"}, 403, "forbidden", ""},
		{"DELETE", doorPlace, "", []string{"Sec-Fetch-Site", "cross-site"}, 403, "forbidden", ""},
		{"GET", doorPlace + "?wait_ms=30001", "", nil, 422, "invalid", "query.wait_ms"},
		{"GET", doorPlace + "?while=asleep", "", nil, 422, "invalid", "query.while"},
		{"PUT", doorPlace, "", nil, 405, "method_not_allowed", ""},
		{"GET", doorPlace + "/claim", "", nil, 405, "method_not_allowed", ""},
		{"PUT", door, "{}", nil, 405, "method_not_allowed", ""}, // on this listener
		{"POST", door + "/hold", "", nil, 404, "unknown_route", ""},
		{"GET", door + "/places", "", nil, 404, "unknown_route", ""},
	} {
		w := call(h, tt.method, tt.path, tt.body, tt.fields...)
		p := problemIn(t, w)
		if w.Code != tt.status || p.Reason != tt.reason || !strings.Contains(w.Body.String(), tt.text) {
			t.Errorf("%s %.80s %.80s: %d %s", tt.method, tt.path, tt.body, w.Code, w.Body)
		}
	}
	w := call(h, "POST", "/v1/rooms/later/place", "")
	if after, err := strconv.Atoi(w.Header().Get("Retry-After")); err != nil || after < 1 || after > 90 { // the room opens 90 s after it was made
		t.Errorf("%v", w.Header())
	}
	// Somebody unknown has the place of the token only, and a user's token is of no use to others.
	anybody := call(h, "POST", "/v1/rooms/open/place", "", "X-User-ID", "")
	token := into[seen](t, anybody).Token
	if w := call(h, "GET", "/v1/rooms/open/place", "", "X-User-ID", "", "X-Place-Token", token); anybody.Code != 201 || w.Code != 200 {
		t.Errorf("%s, then %s", anybody.Body, w.Body)
	}
	adas := into[seen](t, call(h, "GET", doorPlace, "")).Token
	for _, fields := range [][]string{{"X-User-ID", "bob", "X-Place-Token", adas}, {"X-User-ID", "bob", "X-Place-Token", token}} {
		if w := call(h, "GET", doorPlace, "", fields...); w.Code != 404 {
			t.Errorf("%v: %d %s", fields, w.Code, w.Body)
		}
	}
	if w := call(h, "HEAD", door, ""); w.Code != 200 {
		t.Errorf("%d", w.Code)
	}
	if w := call(h, "GET", doorPlace, "", "X-Place-Token", "a"); w.Code != 200 { // the user's name is enough
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestRejoining: giving up one place after another costs a wait.
func TestRejoining(t *testing.T) {
	b := setup(t, withRooms(t))
	h := b.Public()
	call(b.Internal(), "PUT", door, definitionOf("fifo", -time.Minute, ""))
	for range 2 {
		if w := call(h, "POST", doorPlace, ""); w.Code != 201 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		call(h, "DELETE", doorPlace, "")
	}
	w := call(h, "POST", doorPlace, "")
	if after := w.Header().Get("Retry-After"); w.Code != 429 || after != "10" && after != "9" || !strings.Contains(w.Body.String(), "one place after another") {
		t.Errorf("%d %s %s", w.Code, after, w.Body)
	}
}

// TestRoomDefinitions: what an operator may define, and the texts for the rest.
func TestRoomDefinitions(t *testing.T) {
	b := setup(t, withRooms(t))
	h := b.Internal()
	starts := `"starts_at":"2099-01-01T00:00:00Z"`
	for body, want := range map[string]string{
		`{}`:                             "mode",
		`{"mode":"lifo",` + starts + `}`: "body.mode",
		`{"mode":"draw",` + starts + `}`: `"location":"body.gather_at","message":"must be before starts_at`,
		`{"mode":"fifo","gather_at":"2099-01-02T00:00:00Z",` + starts + `}`:                                            "body.gather_at",
		`{"mode":"fifo","claim_ms":999,` + starts + `}`:                                                                "body.claim_ms",
		`{"mode":"fifo","capacity":-1,` + starts + `}`:                                                                 "body.capacity",
		`{"mode":"fifo","bound":"loose",` + starts + `}`:                                                               "body.bound",
		`{"mode":"fifo","sale":"flash",` + starts + `}`:                                                                "sale and item must be given together",
		`{"mode":"fifo","lanes":{"members":30},` + starts + `}`:                                                        "body.lanes",
		`{"mode":"fifo","lanes":null,` + starts + `}`:                                                                  "body.lanes",
		`{"mode":"fifo","lanes":[{"lane":"a","share":1}],` + starts + `}`:                                              `"location":"body.lanes","message":"must be 2 to 8, or none, got 1"`,
		`{"mode":"fifo","lanes":[{"lane":"a","share":1},{"lane":"b","share":0}],` + starts + `}`:                       "body.lanes[1].share",
		`{"mode":"fifo","lanes":[{"lane":"a","share":1},{"lane":"b","share":1,"rate":1}],` + starts + `}`:              "body.lanes[1].rate",
		`{"mode":"fifo","lanes":[{"lane":"a","share":1},{"lane":"B","share":1}],` + starts + `}`:                       `named with 1 to 64 of a-z, 0-9 and -, got \"B\"`,
		`{"mode":"fifo","lanes":[{"lane":"a","share":1,"tier":"x"},{"lane":"b","share":1,"tier":"x"}],` + starts + `}`: "one lane without a tier",
		`{"mode":"fifo","beacon":"drand",` + starts + `}`:                                                              `"location":"body.beacon","message":"must be absent in mode fifo`,
		`{"mode":"draw","beacon":"dice",` + starts + `}`:                                                               "body.beacon",
		`{"mode":"fifo","captcha":true,` + starts + `}`:                                                                "this server cannot make challenges",
		`{"mode":"fifo","requires_user":false,"sale":"s","item":"i",` + starts + `}`:                                   "body.requires_user",
		`{"mode":"fifo","sale":"flash","item":"shoe",` + starts + `}`:                                                  "sells nothing",
		`{"mode":"fifo","name":"x",` + starts + `}`:                                                                    "body.name",
		`{"mode":"fifo","starts_at":"noon"}`:                                                                           "body.starts_at",
	} {
		w := call(h, "PUT", door, body)
		if p := problemIn(t, w); p.Reason != "invalid" || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	if w := call(h, "PUT", "/v1/rooms/Door", `{"mode":"fifo",`+starts+`}`); w.Code != 422 || !strings.Contains(w.Body.String(), `"location":"path.room","message":"must be 1 to 64`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w := answers(t, h, "PUT", door, `{"mode":"fifo",`+starts+`}`, 201)
	for _, want := range []string{`"requires_user":true`, `"claim_ms":90000`, `"pass_ms":600000`, `"bound":"strict"`, `"gather_at":"2099-01-01T00:00:00Z"`, `"phase":"scheduled"`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %s in %s", want, w.Body)
		}
	}
	answers(t, h, "PUT", door, `{"mode":"fifo",`+starts+`}`, 200)

	verb := func(name, body string, status int, want string) {
		t.Helper()
		w := answers(t, h, "POST", door+"/"+name, body, status)
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s %s: %s", name, body, w.Body)
		}
	}
	for range 2 {
		verb("hold", "", 200, `"phase":"held"`)
	}
	for range 2 {
		verb("resume", "", 200, `"phase":"scheduled"`)
	}
	verb("rate", `{"rate_per_min":7}`, 200, `"rate_per_min":7`)
	verb("rate", `{"rate_per_min":-7}`, 422, "body.rate_per_min")
	verb("advance", `{"by":7}`, 200, "")
	verb("advance", `{"by":-7}`, 422, "body.by")
	verb("advance", `{}`, 422, "body")
	verb("message", `{"message":"soon"}`, 200, `"message":"soon"`)
	verb("message", `{"message":"`+strings.Repeat("x", 501)+`"}`, 422, "body.message")
	verb("message", `{"message":"\u0000"}`, 422, `"location":"body.message","message":"must have at most 500 characters and no control characters`)
	verb("message", `{"message":""}`, 200, "")
	verb("draw", "", 409, "has the mode fifo")
	for range 2 {
		verb("close", "", 200, `"phase":"closed"`)
	}
	verb("hold", "", 409, "room door has ended")
	if w := call(h, "POST", "/v1/rooms/none/hold", ""); w.Code != 404 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, path := range []string{"/places?cursor=x", "/places?cursor=LTE", "/places?limit=0"} {
		if w := call(h, "GET", door+path, ""); w.Code != 422 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestRoomChangesAreAudited: with who did it, and what; visitors leave no entry.
func TestRoomChangesAreAudited(t *testing.T) {
	b, kept := withAudit(t)
	h := b.Internal()
	token := []string{"X-Tidegate-Token", bossToken}
	call(h, "PUT", door, definitionOf("fifo", -time.Minute, ""), token...)
	call(h, "POST", door+"/rate", `{"rate_per_min":7}`, token...)
	call(h, "POST", door+"/hold", "", token...)
	call(h, "POST", door+"/hold", "", "X-Tidegate-Token", shopToken)
	call(h, "POST", doorPlace, "", "X-Tidegate-Token", shopToken)
	var got []string
	for _, e := range slices.Backward(kept.events) { // the newest is the first
		got = append(got, e.Action+" "+e.Target+" "+e.Outcome)
	}
	if want := "put-room /v1/rooms/door done;rate-room /v1/rooms/door/rate done;hold-room /v1/rooms/door/hold done;hold-room /v1/rooms/door/hold forbidden"; strings.Join(got, ";") != want {
		t.Errorf("%v", got)
	}
	if kept.events[2].Detail != `{"rate_per_min":7}` {
		t.Errorf("%+v", kept.events[2])
	}
}

// TestRoomChangesHaveReasons: each verb takes a reason, which the audit log has, and a request id, with which it can be repeated.
func TestRoomChangesHaveReasons(t *testing.T) {
	b, kept := withAudit(t)
	h := b.Internal()
	token := []string{"X-Tidegate-Token", bossToken}
	call(h, "PUT", door, definitionOf("fifo", -time.Minute, ""), token...)
	call(h, "POST", doorPlace, "", "X-Tidegate-Token", shopToken, "X-User-ID", "ada")
	kept.events = nil
	for _, verb := range [][2]string{
		{"advance", `"by":1,`}, {"advance", `"by":1,`}, {"hold", ""}, {"resume", ""}, {"rate", `"rate_per_min":7,`}, {"message", `"message":"soon",`}, {"draw", ""}, {"close", ""},
	} {
		body := "{" + verb[1] + `"reason":"because of ` + verb[0] + `","request_id":"id of ` + verb[0] + `"}`
		if w := call(h, "POST", door+"/"+verb[0], body, token...); w.Code != 200 && verb[0] != "draw" {
			t.Errorf("%s: %d %s", verb[0], w.Code, w.Body)
		}
		e := kept.events[0]
		if e.Actor != "boss" || !strings.Contains(e.Detail, `"reason":"because of `+verb[0]) || !strings.Contains(e.Detail, "request_id") || e.At.IsZero() {
			t.Errorf("%s: %+v", verb[0], e)
		}
	}
	type steps struct {
		Items []struct {
			Steps []struct{ Step, By, Cause string }
		}
	}
	got := into[steps](t, call(h, "GET", door+"/places?user=ada", "", token...))
	if len(got.Items) != 1 || !strings.Contains(fmt.Sprint(got), "{held boss because of hold} {resumed boss because of resume}") {
		t.Errorf("%+v", got)
	}
	for body, want := range map[string]string{
		`{"by":-1}`: "body.by", `{"by":1,"reason":"` + strings.Repeat("x", 256) + `"}`: "body.reason", `{"by":1,"because":"x"}`: "body.because",
		`{"by":1,"request_id":"a\u0000"}`: "body.request_id",
	} {
		if w := call(h, "POST", door+"/advance", body, token...); w.Code != 422 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
}

// TestLanes: a lane for each group, the lane of a place wherever a place is shown, and a number for each lane in the ids of events.
func TestLanes(t *testing.T) {
	b := setup(t, withRooms(t))
	h, operate := b.Public(), b.Internal()
	const lanes = `,"lanes":[{"lane":"members","share":30,"tier":"member"},{"lane":"known","share":20,"tier":"registered"},{"lane":"all","share":50}]`
	answers(t, operate, "PUT", door, definitionOf("fifo", -time.Minute, lanes), 201)
	for _, tt := range []struct {
		user, tier, body string
		status           int
		want             string
	}{
		{"ann", "", "", 201, `"lane":"all"`},
		{"ann", "", `{"lane":"all"}`, 200, `"lane":"all"`},
		{"ann", "member", `{"lane":"members"}`, 200, `"lane":"all"`},
		{"bob", "", `{"lane":"members"}`, 403, `"reason":"forbidden","detail":"lane members takes visitors of tier member only"`},
		{"bob", "", `{"lane":"vip"}`, 422, `"location":"body.lane","message":"must be one of members, known, all, got \"vip\""`},
		{"bob", "member", `{"lane":"known"}`, 403, "tier registered only"},
		{"bob", "", `{"lane":"known"}`, 201, `"number":2,"lane":"known","position":1,`},
		{"mia", "member", `{"lane":"members","quantity":2}`, 201, `"number":3,"lane":"members","position":1,`},
		{"max", "member", "", 201, `"number":4,"lane":"all","position":2,`},
	} {
		w := answers(t, h, "POST", doorPlace, tt.body, tt.status, "X-User-ID", tt.user, "X-User-Tier", tt.tier)
		if !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%+v: %s", tt, w.Body)
		}
	}
	served := func(want string) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			w := answers(t, h, "GET", door, "", 200)
			if strings.Contains(w.Body.String(), want) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("no %s in %s", want, w.Body)
			}
		}
	}
	served(`"lanes":[{"lane":"members","share":30,"tier":"member","served":0,"joined":1,"waiting":1},{"lane":"known","share":20,"tier":"registered","served":0,"joined":1,"waiting":1},` +
		`{"lane":"all","share":50,"served":0,"joined":2,"waiting":2}]`)
	server := httptest.NewServer(operate)
	t.Cleanup(server.Close) // after the streams are
	stream := func(last string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+door+"/events", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Last-Event-ID", last)
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	until := func(resp *http.Response, want string) string {
		t.Helper()
		text := ""
		for part := make([]byte, 4096); !strings.Contains(text, want); {
			n, err := resp.Body.Read(part)
			if text += string(part[:n]); err != nil {
				t.Fatalf("%v before %q: %s", err, want, text)
			}
		}
		return text
	}
	live := stream("")
	until(live, "event: room\nid: 0,0,0\n")
	call(operate, "POST", door+"/advance", `{"by":3}`)
	if text := until(live, "id: 1,1,1\ndata: {\"room\""); strings.Count(text, "event: turn") != 3 || !strings.Contains(text, `"user":"mia","state":"turn","lane":"members"`) {
		t.Errorf("%s", text)
	}
	served(`"lane":"all","share":50,"served":1,"joined":2,"waiting":1}`)
	for last, want := range map[string]int{"1,0,1": 1, "0,0,0": 3, "1,1,1": 0, "1": 0, "9,0,9": 1, "x,0,1": 1, "0,0,0,0": 0} {
		if text := until(stream(last), "event: room"); strings.Count(text, "event: turn") != want {
			t.Errorf("after %s: %s", last, text)
		}
	}
	places := answers(t, operate, "GET", door+"/places", "", 200).Body.String()
	list := call(operate, "GET", door+"/places.csv", "").Body.String()
	if lines := call(operate, "GET", door+"/places.csv", "", "Accept", "application/x-ndjson").Body.String(); strings.Count(lines, "\n") != 4 ||
		!strings.Contains(lines, `{"number":3,"user":"mia","state":"turn","position":1,"quantity":2,`) || !strings.Contains(lines, `"reason":null,"lane":"members"}`) {
		t.Errorf("%s", lines)
	}
	if !strings.Contains(places, `"number":3,"user":"mia","state":"turn","lane":"members"`) || !strings.Contains(list, ",reason,lane\n") || !strings.Contains(list, "3,mia,turn,1,2,") || !strings.Contains(list, ",members\n") {
		t.Errorf("%s\n%s", places, list)
	}
	var counter struct {
		Served string `json:"serving_counter"`
	}
	if w := call(h, "GET", "/vwr/serving_num?event_id=door", ""); json.Unmarshal(w.Body.Bytes(), &counter) != nil || counter.Served != "1" { // of the lane that these clients join
		t.Errorf("%s", w.Body)
	}
	if w := call(operate, "PUT", door, definitionOf("fifo", -time.Minute, "")); w.Code != 409 {
		t.Errorf("without lanes: %d %s", w.Code, w.Body)
	}
}

// TestPlacesForSpreadsheetsAndPrograms: a user and a lane that look like formulas are none in CSV, and are as they are in NDJSON.
func TestPlacesForSpreadsheetsAndPrograms(t *testing.T) {
	b := setup(t, withRooms(t))
	operate := b.Internal()
	answers(t, operate, "PUT", door, definitionOf("fifo", -time.Minute, `,"lanes":[{"lane":"-1","share":50},{"lane":"all","share":50}]`), 201)
	answers(t, b.Public(), "POST", doorPlace, `{"lane":"-1"}`, 201, "X-User-ID", "+4915112345678")
	sheet := call(operate, "GET", door+"/places.csv", "").Body.String()
	if !strings.Contains(sheet, "\n1,'+4915112345678,") || !strings.HasSuffix(sheet, ",'-1\n") {
		t.Errorf("%s", sheet)
	}
	exact := call(operate, "GET", door+"/places.csv", "", "Accept", "application/x-ndjson").Body.String()
	if !strings.HasPrefix(exact, `{"number":1,"user":"+4915112345678","state":"`) || !strings.HasSuffix(exact, `,"order_id":null,"reason":null,"lane":"-1"}`+"\n") {
		t.Errorf("%s", exact)
	}
}

// TestDrawIsPublished: the commitment before, everything after, and the list verifies.
func TestDrawIsPublished(t *testing.T) {
	b := setup(t, withRooms(t))
	h, operate := b.Public(), b.Internal()
	call(operate, "PUT", door, definitionOf("draw", time.Second, ""))
	before := answers(t, h, "GET", door, "", 200).Body.String()
	if !strings.Contains(before, `"root":null,"n":null,"seed":null`) {
		t.Errorf("%s", before)
	}
	for i := range 5 {
		w := call(h, "POST", doorPlace, "", "X-User-ID", fmt.Sprint("user-", i))
		if w.Code != 201 || !strings.Contains(w.Body.String(), `"receipt":"`) || strings.Contains(w.Body.String(), `"position"`) {
			t.Errorf("%s", w.Body)
		}
	}
	if w := answers(t, operate, "POST", door+"/draw", "", 409); w.Header().Get("Retry-After") != "1" {
		t.Errorf("%v", w.Header())
	}
	call(h, "GET", doorPlace+"?wait_ms=30000", "", "X-User-ID", "user-0")
	w := answers(t, operate, "POST", door+"/draw", "", 200)
	if !strings.Contains(w.Body.String(), `"n":5`) {
		t.Errorf("%s", w.Body)
	}
	list := call(h, "GET", door+"/draw.csv", "")
	d, err := draw.Verify(list.Body)
	if err != nil || d.N != 5 || !strings.Contains(before, d.Commitment) || !strings.Contains(w.Body.String(), d.Root) {
		t.Errorf("%+v %v", d, err)
	}
	if list.Header().Get("Content-Type") != "text/csv; charset=utf-8; header=present" {
		t.Errorf("%v", list.Header())
	}
	exact := call(h, "GET", door+"/draw.csv", "", "Accept", "application/x-ndjson")
	lines := strings.Split(exact.Body.String(), "\n")
	if len(lines) != 7 || !strings.Contains(lines[0], `{"room":"door","commitment":"`+d.Commitment+`","secret":"`) || !strings.Contains(lines[0], `,"n":5}`) ||
		!strings.HasPrefix(lines[5], `{"index":4,"subject":"`) || exact.Header().Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("%v\n%s", exact.Header(), exact.Body)
	}
}

// TestDrawWithBeacon: the round is named at once, the root is published at the start, and only the round's signature is taken. It is one that
// nobody can have yet.
func TestDrawWithBeacon(t *testing.T) {
	b := setup(t, withRooms(t))
	h, operate := b.Public(), b.Internal()
	call(operate, "PUT", door, definitionOf("draw", time.Second, `,"beacon":"drand"`))
	call(h, "POST", doorPlace, "", "X-User-ID", "ann")
	type drawn struct {
		Draw struct {
			Root, Seed *string
			N          int
			Beacon     struct {
				Round     int64
				At        time.Time
				Signature *string
			}
		}
	}
	show := func() (d drawn) { return into[drawn](t, answers(t, h, "GET", door, "", 200)) }
	round := show().Draw.Beacon.Round
	body := func(round int64, signature string) string {
		return fmt.Sprintf(`{"round":%d,"signature":%q}`, round, signature)
	}
	const signed1000 = "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39"
	if w := answers(t, operate, "POST", door+"/beacon", body(1000, signed1000), 409); !strings.Contains(w.Body.String(), "waits for a round only after its start") {
		t.Errorf("%s", w.Body)
	}
	for deadline := time.Now().Add(10 * time.Second); show().Draw.Root == nil && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	d := show().Draw
	if d.N != 1 || d.Seed != nil || d.Beacon.Round != round || d.Beacon.Signature != nil || time.Until(d.Beacon.At) < 5*time.Second {
		t.Errorf("%+v", d)
	}
	for body, want := range map[string]string{
		body(round, signed1000):           `"location":"body.signature","message":"must be that of round`,
		body(round, "b446"):               "body.signature",
		body(0, signed1000):               "body.round",
		`{"round":1000}`:                  "body",
		`{"round":1000,"randomness":"0"}`: "body",
	} {
		if w := answers(t, operate, "POST", door+"/beacon", body, 422); !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %s", body, w.Body)
		}
	}
	if w := answers(t, operate, "POST", door+"/beacon", body(1000, signed1000), 409); !strings.Contains(w.Body.String(), fmt.Sprint("needs round ", round)) {
		t.Errorf("%s", w.Body)
	}
	if w := answers(t, operate, "POST", door+"/draw", "", 409); !strings.Contains(w.Body.String(), fmt.Sprint("round ", round)) || w.Header().Get("Retry-After") == "" {
		t.Errorf("%v %s", w.Header(), w.Body)
	}
	if w := answers(t, h, "GET", door+"/draw.csv", "", 409); !strings.Contains(w.Body.String(), "has not drawn") {
		t.Errorf("%s", w.Body)
	}
}

// TestRoomEvents: the document at once, again when it has changed, and an end when the process is to end.
func TestRoomEvents(t *testing.T) {
	b := setup(t, withRooms(t))
	call(b.Internal(), "PUT", door, definitionOf("fifo", -time.Minute, ""))
	server := httptest.NewServer(b.Public())
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+door+"/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v", resp.Header)
	}
	var text string
	await := func(want string) {
		t.Helper()
		for part := make([]byte, 4096); !strings.Contains(text, want); {
			n, err := resp.Body.Read(part)
			if text += string(part[:n]); err != nil {
				t.Fatalf("%v before %q: %s", err, want, text)
			}
		}
	}
	await("event: room\ndata: {\"room\":\"door\",\"phase\":\"serving\"")
	call(b.Internal(), "POST", door+"/hold", "")
	await("\"phase\":\"held\"")
	if strings.Count(text, "event:") != 2 {
		t.Errorf("%s", text)
	}
	b.Drain()
	for part := make([]byte, 4096); ; {
		if _, err := resp.Body.Read(part); err != nil {
			break
		}
	}
	if w := call(b.Public(), "GET", door+"/events", ""); w.Code != 503 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	start := time.Now() // waits end, too
	call(b.Public(), "POST", doorPlace, "")
	if w := call(b.Public(), "GET", doorPlace+"?wait_ms=30000", ""); w.Code != 200 || time.Since(start) > 20*time.Second {
		t.Errorf("%d %s after %v", w.Code, w.Body, time.Since(start))
	}
}

// TestRoomWithCaptcha: one solution gives one place, in its room, to its user; whoever has a place needs none.
func TestRoomWithCaptcha(t *testing.T) {
	b := setup(t, withCaptcha(t, orderHurdle), withRooms(t))
	h := b.Public()
	for _, room := range []string{door, "/v1/rooms/other"} {
		if w := call(b.Internal(), "PUT", room, definitionOf("fifo", time.Hour, `,"captcha":true`)); w.Code != 201 {
			t.Fatalf("%s", w.Body)
		}
	}
	solved := solution(t, h, challengedFor(t, call(h, "POST", doorPlace, ""), ""))
	challengedFor(t, call(h, "POST", "/v1/rooms/other/place", "", "X-Captcha", solved), "another caller or purpose")
	challengedFor(t, call(h, "POST", doorPlace, "", "X-Captcha", solved, "X-User-ID", "bob"), "another caller or purpose")
	challengedFor(t, call(h, "POST", doorPlace, "", "X-Captcha", "x"), "no solution")
	if w := call(h, "POST", doorPlace, "", "X-Captcha", solved); w.Code != 201 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	challengedFor(t, call(h, "POST", placePath, shoe, "X-Captcha", solved), "")
	challengedFor(t, call(h, "POST", doorPlace, "", "X-Captcha", solved, "X-User-ID", "bob"), "")
	order := solution(t, h, challengedFor(t, call(h, "POST", placePath, shoe), ""))
	challengedFor(t, call(h, "POST", "/v1/rooms/other/place", "", "X-Captcha", order), "another caller or purpose")
	again := solution(t, h, challengedFor(t, call(h, "POST", doorPlace, ""), "")) // by the rules, like any request
	if w := call(h, "POST", doorPlace, "", "X-Captcha", again); w.Code != 200 {
		t.Errorf("the second time: %d %s", w.Code, w.Body)
	}
}

// TestAJoinThatFailsIsCharged: while the database does not tell whether the visitor has a place, which needs no challenge, joins are charged all
// the same, so that nobody makes more of them than the rules allow.
func TestAJoinThatFailsIsCharged(t *testing.T) {
	db := databases.OpenSQLite(t)
	b := setup(t, withCaptcha(t, "- {name: joins, match: {method: POST}, subject: caller, limit: 2, window: 1h}\n"), withRoomsIn(t, db))
	if w := call(b.Internal(), "PUT", door, definitionOf("fifo", time.Hour, `,"captcha":true`)); w.Code != 201 {
		t.Fatalf("%s", w.Body)
	}
	if _, err := db.ExecContext(t.Context(), `ALTER TABLE waiting_places RENAME TO gone`); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{503, 503, 429} {
		if w := call(b.Public(), "POST", doorPlace, ""); w.Code != want {
			t.Errorf("join %d: %d %s, want %d", i+1, w.Code, w.Body, want)
		}
	}
}

// TestARuleThatCannotDecideAJoin: that is the operator's fault, so the visitor does not see the rule.
func TestARuleThatCannotDecideAJoin(t *testing.T) {
	for _, captcha := range []string{"", `,"captcha":true`} {
		b := setup(t, withCaptcha(t, "- {name: joins, match: {method: POST}, subject: caller, cost: rows, limit: 2, window: 1h}\n"), withRooms(t))
		if w := call(b.Internal(), "PUT", door, definitionOf("fifo", time.Hour, captcha)); w.Code != 201 {
			t.Fatalf("%s", w.Body)
		}
		if w := call(b.Public(), "POST", doorPlace, ""); w.Code != 500 || strings.Contains(w.Body.String(), "rows") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

// TestOrdersNeedATurn: an order without a turn names the room; one whose turn Redis has forgotten is placed.
func TestOrdersNeedATurn(t *testing.T) {
	for _, body := range []string{shoe, `{"item":"sh\u006fe"}`} {
		b := setup(t, withRooms(t))
		b.orders.reserve = orders.Outcome{Reason: orders.ReasonTurnRequired, Room: "door"}
		w := call(b.Public(), "POST", placePath, body)
		if p := problemIn(t, w); p.Status != 403 || p.Reason != "turn_required" || p.Room != door || w.Header().Get("Link") != "<"+door+`>; rel="related"` {
			t.Errorf("%v %s", w.Header(), w.Body)
		}
		if got := strings.Join(b.orders.calls, " "); got != "prepare screen charge reserve" {
			t.Error(got)
		}
		forgotten := &restoring{of: b}
		b.placer.Rooms = forgotten
		b.orders.calls = nil
		if w := call(b.Public(), "POST", placePath, body); w.Code != 202 || forgotten.asked != "flash shoe ada" || strings.Join(b.orders.calls, " ") != "prepare screen charge reserve reserve" {
			t.Errorf("%d %s %q %v", w.Code, w.Body, forgotten.asked, b.orders.calls)
		}
		b.orders.reserve, forgotten.err = orders.Outcome{Reason: orders.ReasonTurnRequired}, waitingroom.ErrUnavailable
		if p := problemIn(t, call(b.Public(), "POST", placePath, body)); p.Status != 503 || p.Reason != "store_unavailable" {
			t.Errorf("%+v", p)
		}
		for range 20 { // nobody may load the database by ordering without a turn
			call(b.Public(), "POST", placePath, body)
		}
		if forgotten.n > 12 {
			t.Errorf("asked %d times", forgotten.n)
		}
	}
}

// restoring is a waiting room that has admitted everybody.
type restoring struct {
	of    *bed
	asked string
	n     int
	err   error
}

func (r *restoring) Restore(_ context.Context, sale, item, user string) (bool, error) {
	r.n++
	if r.asked = sale + " " + item + " " + user; r.err == nil {
		r.of.orders.reserve = orders.Outcome{Order: accepted}
	}
	return r.err == nil, r.err
}

// TestRoomRoles: services act for visitors, viewers look, operators change.
func TestRoomRoles(t *testing.T) {
	b := setup(t, withTokens(t), withRooms(t))
	call(b.Internal(), "PUT", door, definitionOf("fifo", -time.Minute, ""), "X-Tidegate-Token", "operator-token-of-tests")
	for _, tt := range []struct {
		method, path            string
		admit, viewer, operator int
	}{
		{"GET", door, 200, 200, 200},
		{"POST", doorPlace, 201, 403, 200},
		{"GET", doorPlace, 200, 403, 200},
		{"POST", doorPlace + "/claim", 409, 403, 409},
		{"GET", door + "/draw.csv", 409, 409, 409},
		{"GET", "/.well-known/jwks.json", 200, 200, 200},
		{"GET", "/.well-known/receipt-keys.json", 200, 200, 200},
		{"GET", "/v1/rooms", 403, 200, 200},
		{"GET", door + "/places", 403, 200, 200},
		{"GET", door + "/places.csv", 200, 403, 200},
		{"GET", door + "/verify", 403, 200, 200},
		{"POST", door + "/hold", 403, 403, 200},
		{"POST", door + "/close", 403, 403, 200},
		{"PUT", door, 403, 403, 422},
	} {
		for _, token := range []struct {
			name string
			want int
		}{{"", 401}, {"admit-token-of-tests", tt.admit}, {"metrics-token-of-tests", 403}, {"viewer-token-of-tests", tt.viewer}, {"operator-token-of-tests", tt.operator}} {
			if w := call(b.Internal(), tt.method, tt.path, "", "X-Tidegate-Token", token.name); w.Code != token.want {
				t.Errorf("%s %s with %q: %d, want %d: %s", tt.method, tt.path, token.name, w.Code, token.want, w.Body)
			}
		}
	}
}

var pollAfter = regexp.MustCompile(`"poll_after_ms":\d+,`) // partly random

// TestFastPlace: the fast path, which any query disables, answers as Huma does.
func TestFastPlace(t *testing.T) {
	b := setup(t, withRooms(t))
	definition := definitionOf("fifo", time.Hour, `,"rate_per_min":600`)
	answers(t, b.Internal(), "PUT", door, definition, 201)
	token := into[seen](t, answers(t, b.Public(), "POST", doorPlace, "", 201)).Token
	for what, h := range map[string]http.Handler{"public": b.Public(), "internal": b.Internal()} {
		for _, path := range []string{doorPlace, "/v1/rooms/nowhere/place", "/v1/rooms/No.Name/place", "/v1/rooms/d%6For/place", "/v1/rooms/%ff/place"} {
			for _, fields := range [][]string{nil, {"X-Place-Token", token}, {"X-Place-Token", "forged"}, {"X-User-ID", "nobody"}, {"Accept", "text/html"}} {
				answer := func(path string) string {
					w := call(h, "GET", path, "", fields...)
					w.Header().Del("X-Request-Id")
					return fmt.Sprint(w.Code, w.Header(), pollAfter.ReplaceAllString(strings.TrimSpace(w.Body.String()), ""))
				}
				if fast, slow := answer(path), answer(path+"?wait_ms=0"); fast != slow {
					t.Errorf("%s %s %v:\n%s\n%s", what, path, fields, fast, slow)
				}
			}
		}
	}
	if w := answers(t, b.Public(), "GET", doorPlace, "", 200); into[seen](t, w).Number != 1 {
		t.Errorf("%s", w.Body)
	}
}

// TestHeadOfEvents: HEAD of a stream ends with its header, as of any other document.
func TestHeadOfEvents(t *testing.T) {
	b := setup(t, withRooms(t))
	server := httptest.NewServer(b.Public())
	t.Cleanup(server.Close)
	call(b.Internal(), "PUT", door, definitionOf("fifo", -time.Minute, ``))
	client := &http.Client{Timeout: 20 * time.Second}
	for range 2 {
		resp, err := client.Head(server.URL + door + "/events")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%d %v", resp.StatusCode, resp.Header)
		}
	}
	client.CloseIdleConnections()
	closed := make(chan struct{})
	go func() { server.Close(); close(closed) }() // waits for every handler
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Error("a stream goes on after the answer to HEAD")
		b.Drain()
		server.CloseClientConnections()
	}
}

// TestSharedDocuments: what caches keep for others has nothing of the caller who asked first.
func TestSharedDocuments(t *testing.T) {
	b := setup(t, withRooms(t))
	b.gate.decision.Rules = []admission.Verdict{{Rule: "reads", Public: "reads", Window: time.Minute, Limit: 10, Admitted: true, Remaining: 9}}
	call(b.Internal(), "PUT", door, definitionOf("fifo", -time.Minute, ``))
	for path, shared := range map[string]bool{door: true, "/v1/sales/flash": true, door + "/place": false} {
		h := call(b.Public(), "GET", path, "", "X-User-ID", "ann", "X-Request-Id", "mine").Header()
		for _, name := range []string{"X-Request-Id", "RateLimit", "RateLimit-Policy"} {
			if (h.Get(name) == "") != shared {
				t.Errorf("%s: %s in %v, want it: %t", path, name, h, !shared)
			}
		}
	}
}

// TestTooManyWaits: beyond its bound, an address is answered at once.
func TestTooManyWaits(t *testing.T) {
	b := setup(t, withRooms(t))
	b.waits = route.NewAtOnce(2, 1)
	h := b.Public()
	call(b.Internal(), "PUT", door, definitionOf("fifo", time.Minute, ``))
	for _, user := range []string{"ann", "bob"} {
		call(h, "POST", door+"/place", "", "X-User-ID", user)
	}
	first := make(chan int)
	go func() { first <- call(h, "GET", door+"/place?wait_ms=30000", "", "X-User-ID", "ann").Code }()
	for deadline := time.Now().Add(20 * time.Second); b.waits.Len() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the wait is not counted")
		}
	}
	if w := call(h, "GET", door+"/place?wait_ms=30000", "", "X-User-ID", "bob"); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	select {
	case code := <-first:
		t.Fatalf("the first wait is over: %d", code)
	default:
	}
	b.Drain()
	if code := <-first; code != http.StatusOK || b.waits.Len() != 0 {
		t.Errorf("the first wait: %d, and %d are counted after it", code, b.waits.Len())
	}
}
