package httpapi

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/waitingroom"
)

// vwrRoom makes a room that began a minute ago.
func vwrRoom(t *testing.T, b *bed, name, mode, more string) {
	t.Helper()
	starts := -time.Minute
	if mode == "draw" {
		starts = time.Hour
	}
	if w := call(b.Internal(), "PUT", "/v1/rooms/"+name, definitionOf(mode, starts, more)); w.Code != 201 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
}

const anybody = `,"requires_user":false`

// awsClient behaves as the pages of AWS' sample do: it retries what is not answered 200, and knows a base URL, an event and its request id.
type awsClient struct {
	*testing.T

	base, event, request string
	user                 []string // header fields
	http                 *http.Client
}

func newAWSClient(t *testing.T, b *bed, event string, user ...string) *awsClient {
	t.Helper()
	server := httptest.NewServer(b.Public())
	t.Cleanup(server.Close)
	return &awsClient{T: t, base: server.URL + "/vwr", event: event, user: user, http: server.Client()}
}

func (c *awsClient) send(method, verb, body string) (int, []byte) {
	c.Helper()
	req, err := http.NewRequestWithContext(c.Context(), method, c.base+verb, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(c.user); i += 2 {
		req.Header.Set(c.user[i], c.user[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil {
		c.Fatal(err)
	}
	return resp.StatusCode, text.Bytes()
}

// until200 repeats a call as axios-retry does, and decodes the answer.
func (c *awsClient) until200(method, verb, body string, v any) {
	c.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		status, text := c.send(method, verb, body)
		if status == 200 {
			if err := json.Unmarshal(text, v); err != nil {
				c.Fatalf("%s: %s: %v", verb, text, err)
			}
			return
		}
		if time.Now().After(deadline) {
			c.Fatalf("%s: %d %s", verb, status, text)
		}
		<-time.After(20 * time.Millisecond) // the client's own interval
	}
}

func (c *awsClient) query() string { return "?event_id=" + c.event + "&request_id=" + c.request }

func (c *awsClient) body() string {
	return fmt.Sprintf(`{"event_id":%q,"request_id":%q}`, c.event, c.request)
}

func (c *awsClient) assign() {
	c.Helper()
	var a struct {
		ID string `json:"api_request_id"`
	}
	c.until200("POST", "/assign_queue_num", `{"event_id":"`+c.event+`"}`, &a)
	if c.request = a.ID; c.request == "" {
		c.Fatal("no request id")
	}
}

type awsTokens struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	ID      string `json:"id_token"`
	Type    string `json:"token_type"`
	Seconds int64  `json:"expires_in"`
}

// passes waits for the turn and returns the tokens.
func (c *awsClient) passes() (tokens awsTokens, number int) {
	c.Helper()
	c.assign()
	var mine struct {
		Number  int    `json:"queue_number"`
		Entered int64  `json:"entry_time"`
		Event   string `json:"event_id"`
		Status  int
	}
	c.until200("GET", "/queue_num"+c.query(), "", &mine)
	if mine.Number < 1 || mine.Event != c.event || mine.Status != 1 || time.Since(time.Unix(mine.Entered, 0)).Abs() > time.Minute {
		c.Errorf("%+v", mine)
	}
	for served := 0; served < mine.Number; {
		var now struct {
			Counter string `json:"serving_counter"`
		}
		c.until200("GET", "/serving_num?event_id="+c.event, "", &now)
		var err error
		if served, err = strconv.Atoi(now.Counter); err != nil {
			c.Fatal(err)
		}
	}
	c.until200("POST", "/generate_token", c.body(), &tokens)
	return tokens, mine.Number
}

// verify does what AWS' authorizer does, with go-jose, and returns the claims.
func (c *awsClient) verify(token, use, issuer string, algorithm jose.SignatureAlgorithm) map[string]any {
	c.Helper()
	var key jose.JSONWebKey
	c.until200("GET", "/public_key?event_id="+c.event, "", &key)
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{algorithm})
	if err != nil {
		c.Fatal(err)
	}
	var claims map[string]any
	if err := parsed.Claims(key.Key, &claims); err != nil {
		c.Fatal(err)
	}
	kind := map[string]string{"access": "tidegate-pass+jwt", "refresh": "tidegate-refresh+jwt", "id": "tidegate-id+jwt"}[use] // which it does not look at
	if head := parsed.Headers[0]; head.KeyID != key.KeyID || head.ExtraHeaders["typ"] != kind || key.Use != "sig" || key.Algorithm != string(algorithm) {
		c.Errorf("%+v by %+v", head, key)
	}
	if claims["aud"] != c.event || claims["iss"] != issuer || claims["token_use"] != use || claims["sub"] != c.request || claims["exp"].(float64) < float64(time.Now().Unix()) {
		c.Errorf("%v", claims)
	}
	return claims
}

// TestVWRClient: a client of AWS' solution runs with a changed base URL, with either key.
func TestVWRClient(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for algorithm, change := range map[jose.SignatureAlgorithm]func(*waitingroom.Options){
		jose.EdDSA: func(*waitingroom.Options) {}, jose.RS256: func(o *waitingroom.Options) { o.Signer = key },
	} {
		t.Run(string(algorithm), func(t *testing.T) {
			b := setup(t, withRooms(t, change))
			vwrRoom(t, b, "door", "fifo", anybody+`,"rate_per_min":60000`)
			c := newAWSClient(t, b, "door")
			first, number := c.passes()
			if first.Type != "Bearer" || first.Seconds < 590 || first.Seconds > 600 {
				t.Errorf("%+v", first)
			}
			for use, token := range map[string]string{"access": first.Access, "refresh": first.Refresh, "id": first.ID} {
				claims := c.verify(token, use, "tidegate", algorithm)
				if claims["queue_position"] != float64(number) || claims["iat"] != claims["nbf"] || claims["exp"].(float64)-claims["iat"].(float64) != 600 {
					t.Errorf("%v", claims)
				}
			}
			var again awsTokens
			c.until200("POST", "/generate_token", c.body(), &again)
			if again.Access != first.Access || again.Refresh != first.Refresh || again.ID != first.ID {
				t.Errorf("%+v, then %+v", first, again)
			}
			answers(t, b.Public(), "GET", "/.well-known/jwks.json", "", 200)
			answers(t, b.Public(), "GET", "/vwr/public_key?event_id=door", "", 200)
			if w := call(b.Internal(), "GET", "/v1/authz?room=door", "", "X-Waiting-Room-Pass", first.Access, "X-Forwarded-Uri", "/buy", "X-Forwarded-Method", "GET"); w.Code != 200 {
				t.Errorf("the access token is no pass: %d %s", w.Code, w.Body)
			}
		})
	}
}

// vwrCall calls a verb and compares the answer with the document.
func vwrCall(t *testing.T, h http.Handler, method, verb, parameters string, status int) *httptest.ResponseRecorder {
	t.Helper()
	if method == "GET" {
		return answers(t, h, method, "/vwr/"+verb+parameters, "", status)
	}
	return answers(t, h, method, "/vwr/"+verb, parameters, status)
}

func vwrID(t *testing.T, h http.Handler, event string, fields ...string) string {
	t.Helper()
	w := call(h, "POST", "/vwr/assign_queue_num", `{"event_id":"`+event+`"}`, fields...)
	id := into[struct {
		ID string `json:"api_request_id"`
	}](t, w).ID
	if w.Code != 200 || id == "" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return id
}

func vwrIn(event, id, more string) string {
	return fmt.Sprintf(`{"event_id":%q,"request_id":%q%s}`, event, id, more)
}

// until repeats a call until it has a status.
func vwrUntil(t *testing.T, h http.Handler, verb, body string, status int) *httptest.ResponseRecorder {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; <-time.After(20 * time.Millisecond) {
		w := call(h, "POST", "/vwr/"+verb, body)
		if w.Code == status {
			return w
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d %s, want %d", verb, w.Code, w.Body, status)
		}
	}
}

// TestVWROnePlaceAUser: a user has one request id, and a room without requires_user gives one to each call of somebody unknown.
func TestVWROnePlaceAUser(t *testing.T) {
	b := setup(t, withRooms(t))
	h := b.Public()
	vwrRoom(t, b, "known", "fifo", "")
	vwrRoom(t, b, "door", "fifo", anybody)
	if a, again, bob := vwrID(t, h, "known"), vwrID(t, h, "known"), vwrID(t, h, "known", "X-User-ID", "bob"); a != again || a == bob {
		t.Errorf("%s, %s, %s", a, again, bob)
	}
	if a, other := vwrID(t, h, "door", "X-User-ID", ""), vwrID(t, h, "door", "X-User-ID", ""); a == other {
		t.Error("two visitors have one place")
	}
	if w := call(h, "POST", "/vwr/assign_queue_num", `{"event_id":"known"}`, "X-User-ID", ""); w.Code != 401 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestVWRNumberIsThereAtOnce: in the order of arrival, without a delay; before a draw it is 202.
func TestVWRNumberIsThereAtOnce(t *testing.T) {
	b := setup(t, withRooms(t))
	h := b.Public()
	vwrRoom(t, b, "door", "fifo", anybody)
	vwrRoom(t, b, "drawn", "draw", anybody)
	for i := range 5 {
		id := vwrID(t, h, "door", "X-User-ID", "")
		w := vwrCall(t, h, "GET", "queue_num", "?event_id=door&request_id="+id, 200)
		if n := into[map[string]any](t, w)["queue_number"]; n != float64(i+1) {
			t.Errorf("arrived %d, has the number %v", i+1, n)
		}
	}
	id := vwrID(t, h, "drawn", "X-User-ID", "")
	vwrCall(t, h, "GET", "queue_num", "?event_id=drawn&request_id="+id, 202)
	vwrCall(t, h, "GET", "queue_pos_expiry", "?event_id=drawn&request_id="+id, 202)
	vwrCall(t, h, "POST", "generate_token", vwrIn("drawn", id, ""), 202)
}

// TestVWRCounterNeverGoesBack: a negative increment is 422, as are huge ones.
func TestVWRCounterNeverGoesBack(t *testing.T) {
	b := setup(t, withRooms(t))
	h := b.Internal()
	vwrRoom(t, b, "door", "fifo", anybody)
	ids := []string{vwrID(t, h, "door", "X-User-ID", ""), vwrID(t, h, "door", "X-User-ID", ""), vwrID(t, h, "door", "X-User-ID", "")}
	vwrCall(t, h, "POST", "generate_token", vwrIn("door", ids[0], ""), 202)
	vwrCall(t, h, "POST", "increment_serving_counter", `{"event_id":"door","increment_by":2}`, 200)
	vwrUntil(t, h, "generate_token", vwrIn("door", ids[1], ""), 200)
	for _, by := range []string{"-1", "1000001", "9223372036854775808", "-99999999999999999999", `"-2"`} {
		if w := vwrCall(t, h, "POST", "increment_serving_counter", `{"event_id":"door","increment_by":`+by+`}`, 422); !strings.Contains(w.Body.String(), "body.increment_by") {
			t.Errorf("%s: %s", by, w.Body)
		}
	}
	for _, by := range []string{`1.5`, `"many"`, `null`, `{}`} {
		vwrCall(t, h, "POST", "increment_serving_counter", `{"event_id":"door","increment_by":`+by+`}`, 400)
	}
	if w := vwrCall(t, h, "GET", "serving_num", "?event_id=door", 200); into[map[string]any](t, w)["serving_counter"] != "2" || w.Header().Get("Cache-Control") != "max-age=1" {
		t.Errorf("%s", w.Body)
	}
	if w := vwrCall(t, h, "GET", "waiting_num", "?event_id=door", 200); into[map[string]any](t, w)["waiting_num"] != 1.0 { // the first has not claimed, and does not wait
		t.Errorf("%s", w.Body)
	}
	vwrCall(t, h, "POST", "generate_token", vwrIn("door", ids[2], ""), 202)
}

// TestVWRCapacityCountsOpenTurns: served places that have no token yet count, and update_session makes room.
func TestVWRCapacityCountsOpenTurns(t *testing.T) {
	b := setup(t, withRooms(t))
	h := b.Internal()
	vwrRoom(t, b, "door", "fifo", anybody+`,"capacity":1`)
	first, second, third := vwrID(t, h, "door", "X-User-ID", ""), vwrID(t, h, "door", "X-User-ID", ""), vwrID(t, h, "door", "X-User-ID", "")
	served := func() any {
		return into[map[string]any](t, vwrCall(t, h, "GET", "serving_num", "?event_id=door", 200))["serving_counter"]
	}
	active := func() any {
		return into[map[string]any](t, vwrCall(t, h, "GET", "num_active_tokens", "?event_id=door", 200))["active_tokens"]
	}
	for deadline := time.Now().Add(30 * time.Second); served() != "1"; <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no turn")
		}
	}
	vwrCall(t, h, "GET", "queue_pos_expiry", "?event_id=door&request_id="+first, 200)
	vwrCall(t, h, "POST", "update_session", vwrIn("door", first, `,"status":1`), 404) // it has no token
	vwrCall(t, h, "POST", "increment_serving_counter", `{"event_id":"door","increment_by":1}`, 200)
	<-time.After(time.Second) // several ticks: AWS would serve the second by now
	if served() != "1" || active() != 0.0 {
		t.Errorf("%v served, %v active", served(), active())
	}
	access := into[map[string]any](t, vwrUntil(t, h, "generate_token", vwrIn("door", first, ""), 200))["access_token"].(string)
	gate := func() int {
		return call(h, "GET", "/v1/authz?room=door", "", "X-Forwarded-Uri", "/pay", "X-Forwarded-Method", "GET", "X-User-ID", "", "X-Waiting-Room-Pass", access).Code
	}
	if served() != "1" || active() != 1.0 || gate() != 200 {
		t.Errorf("%v served, %v active, %d at the gate", served(), active(), gate())
	}
	vwrCall(t, h, "POST", "update_session", vwrIn("door", first, `,"status":1`), 200)
	if gate() != 403 {
		t.Errorf("a session that is closed: %d at the gate", gate())
	}
	if active() != 0.0 {
		t.Errorf("%v active", active())
	}
	vwrCall(t, h, "POST", "update_session", vwrIn("door", first, `,"status":1`), 404)
	vwrCall(t, h, "POST", "update_session", vwrIn("door", first, `,"status":-1`), 404)
	vwrCall(t, h, "POST", "generate_token", vwrIn("door", first, ""), 410)
	vwrCall(t, h, "GET", "queue_pos_expiry", "?event_id=door&request_id="+first, 410)
	vwrUntil(t, h, "generate_token", vwrIn("door", second, ""), 200)
	vwrCall(t, h, "POST", "update_session", vwrIn("door", second, `,"status":"-1"`), 200)
	vwrCall(t, h, "POST", "generate_token", vwrIn("door", second, ""), 410)
	vwrUntil(t, h, "generate_token", vwrIn("door", third, ""), 200)
	for _, status := range []string{"0", "2", `"x"`, "null"} {
		vwrCall(t, h, "POST", "update_session", vwrIn("door", third, `,"status":`+status), 400)
	}
}

// TestVWRExpiry: a turn that nobody takes is 410, and tokens that expired are listed.
func TestVWRExpiry(t *testing.T) {
	b := setup(t, withRooms(t))
	h := b.Internal()
	vwrRoom(t, b, "door", "fifo", anybody+`,"rate_per_min":60000,"pass_ms":1000`)
	vwrRoom(t, b, "hasty", "fifo", anybody+`,"rate_per_min":60000,"claim_ms":1000`)
	silent, quick := vwrID(t, h, "hasty", "X-User-ID", ""), vwrID(t, h, "door", "X-User-ID", "")
	vwrUntil(t, h, "generate_token", vwrIn("door", quick, ""), 200)
	for deadline := time.Now().Add(30 * time.Second); ; <-time.After(50 * time.Millisecond) {
		w := vwrCall(t, h, "GET", "expired_tokens", "?event_id=door", 200)
		if ids := into[[]string](t, w); len(ids) == 1 && ids[0] == quick {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s", w.Body)
		}
	}
	for deadline := time.Now().Add(30 * time.Second); ; <-time.After(50 * time.Millisecond) { // asking for the token would take the turn
		w := call(h, "GET", "/vwr/queue_pos_expiry?event_id=hasty&request_id="+silent, "")
		if w.Code == http.StatusGone {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	vwrCall(t, h, "POST", "generate_token", vwrIn("hasty", silent, ""), 410)
	vwrCall(t, h, "POST", "generate_token", vwrIn("door", quick, ""), 410)
}

// TestVWRResetIsRefused: people have places in a room.
func TestVWRResetIsRefused(t *testing.T) {
	b := setup(t, withRooms(t))
	vwrRoom(t, b, "door", "fifo", anybody)
	if w := vwrCall(t, b.Internal(), "POST", "reset_initial_state", `{"event_id":"door"}`, 422); !strings.Contains(w.Body.String(), "make another one") {
		t.Errorf("%s", w.Body)
	}
	vwrCall(t, b.Internal(), "POST", "reset_initial_state", `{}`, 400)
}

// TestVWRPrivateTokens: issuer and validity_period are the internal listener's; a token lives at most as long as its place's pass.
func TestVWRPrivateTokens(t *testing.T) {
	b := setup(t, withRooms(t), func(c *Config) { c.VWRIssuers = []string{"https://op.example/api"} })
	vwrRoom(t, b, "door", "fifo", anybody+`,"rate_per_min":60000`)
	c := newAWSClient(t, b, "door")
	public, _ := c.passes()
	more := `,"issuer":"https://op.example/api","validity_period":60`
	for _, issuer := range []string{"https://op.example", "https://op.example/api/", "HTTPS://op.example/api", "Tidegate", "https://id.shop.example"} {
		w := vwrCall(t, b.Internal(), "POST", "generate_token", vwrIn("door", c.request, fmt.Sprintf(`,"issuer":%q`, issuer)), 422)
		if !strings.Contains(w.Body.String(), "must be tidegate, or one of VWR_ISSUERS") {
			t.Errorf("%s", w.Body)
		}
	}
	own := into[awsTokens](t, vwrCall(t, b.Internal(), "POST", "generate_token", vwrIn("door", c.request, more), 200))
	claims := c.verify(own.Access, "access", "https://op.example/api", jose.EdDSA)
	if claims["exp"].(float64)-claims["iat"].(float64) != 60 || own.Seconds > 60 {
		t.Errorf("%v, %d", claims, own.Seconds)
	}
	if again := into[awsTokens](t, vwrCall(t, b.Internal(), "POST", "generate_token", vwrIn("door", c.request, more), 200)); again.Access != own.Access {
		t.Error("another token")
	}
	if named := into[awsTokens](t, vwrCall(t, b.Internal(), "POST", "generate_token", vwrIn("door", c.request, `,"issuer":"tidegate"`), 200)); named.Access != public.Access {
		t.Error("our own issuer is another one")
	}
	long := into[awsTokens](t, vwrCall(t, b.Internal(), "POST", "generate_token", vwrIn("door", c.request, `,"validity_period":86400`), 200))
	if long.Access != public.Access {
		t.Errorf("%+v", long)
	}
	if same := into[awsTokens](t, vwrCall(t, b.Public(), "POST", "generate_token", vwrIn("door", c.request, more), 200)); same.Access != public.Access {
		t.Error("the public listener takes an issuer")
	}
	for _, period := range []string{"0", "-1", "86401", "99999999999999999999"} {
		vwrCall(t, b.Internal(), "POST", "generate_token", vwrIn("door", c.request, `,"validity_period":`+period), 422)
	}
}

// TestVWRRefreshTokensAreGoodForNothing: they and id tokens are no passes.
func TestVWRRefreshTokensAreGoodForNothing(t *testing.T) {
	b := setup(t, withRooms(t))
	vwrRoom(t, b, "door", "fifo", anybody+`,"rate_per_min":60000`)
	tokens, _ := newAWSClient(t, b, "door").passes()
	for pass, want := range map[string]int{tokens.Access: 200, tokens.Refresh: 403, tokens.ID: 403} {
		if w := call(b.Internal(), "GET", "/v1/authz?room=door", "", "X-Waiting-Room-Pass", pass, "X-Forwarded-Uri", "/buy", "X-Forwarded-Method", "GET"); w.Code != want {
			t.Errorf("%d, want %d", w.Code, want)
		}
	}
}

// TestVWRPassIsItsUsers: with a user, the access token is a pass of that user only.
func TestVWRPassIsItsUsers(t *testing.T) {
	b := setup(t, withRooms(t))
	vwrRoom(t, b, "known", "fifo", `,"rate_per_min":60000`)
	tokens, _ := newAWSClient(t, b, "known", "X-User-ID", "ann").passes()
	for user, want := range map[string]int{"ann": 200, "bob": 403} {
		w := call(b.Internal(), "GET", "/v1/authz?room=known", "", "X-Waiting-Room-Pass", tokens.Access, "X-User-ID", user, "X-Forwarded-Uri", "/buy", "X-Forwarded-Method", "GET")
		if w.Code != want || want == 200 && w.Header().Get("X-User-ID") != "ann" {
			t.Errorf("%s: %d %v", user, w.Code, w.Header())
		}
	}
}

// TestVWRForeignRequestIDs: another user's request id, one of another event, and anything else look like none.
func TestVWRForeignRequestIDs(t *testing.T) {
	b := setup(t, withRooms(t))
	h := b.Public()
	vwrRoom(t, b, "known", "fifo", `,"rate_per_min":60000`)
	vwrRoom(t, b, "other", "fifo", `,"rate_per_min":60000`)
	ids := map[string]string{
		"another user's": vwrID(t, h, "known", "X-User-ID", "bob"), "of another event": vwrID(t, h, "other"), "none": "", "a UUID": "26a07142-098a-4bea-b67d-1fe5a098bf29",
		"markup": "%3Cscript%3E", "long": strings.Repeat("A", 8000),
	}
	mine := vwrID(t, h, "known")
	ids["changed"] = mine[:len(mine)-8] + "AAAAAAAA"
	for name, id := range ids {
		t.Run(name, func(t *testing.T) {
			vwrCall(t, h, "GET", "queue_num", "?event_id=known&request_id="+id, 400)
			vwrCall(t, h, "GET", "queue_pos_expiry", "?event_id=known&request_id="+id, 404)
			vwrCall(t, h, "POST", "generate_token", vwrIn("known", id, ""), 400)
			if name != "another user's" { // a service acts for all of them
				vwrCall(t, b.Internal(), "POST", "update_session", vwrIn("known", id, `,"status":-1`), 404)
			}
		})
	}
	vwrUntil(t, h, "generate_token", vwrIn("known", mine, ""), 200)
	vwrUntil(t, b.Internal(), "generate_token", vwrIn("known", ids["another user's"], ""), 200)
	if w := call(h, "POST", "/vwr/generate_token", vwrIn("known", mine, ""), "X-User-ID", ""); w.Code != 401 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	// Where no user is required, a request id of a user is good for that user, and one of somebody unknown for whoever has it.
	vwrRoom(t, b, "open", "fifo", anybody+`,"rate_per_min":60000`)
	users, unknown := vwrID(t, h, "open"), vwrID(t, h, "open", "X-User-ID", "")
	vwrUntil(t, h, "generate_token", vwrIn("open", users, ""), 200)
	for name, want := range map[string]int{"": 400, "bob": 400, "ada": 200} {
		if w := call(h, "POST", "/vwr/generate_token", vwrIn("open", users, ""), "X-User-ID", name); w.Code != want {
			t.Errorf("a user's request id, sent by %q: %d %s", name, w.Code, w.Body)
		}
	}
	vwrUntil(t, h, "generate_token", vwrIn("open", unknown, ""), 200)
}

// TestVWRInvalidEvents: every verb refuses an event that is missing, unknown or no name at all, in AWS' form.
func TestVWRInvalidEvents(t *testing.T) {
	b := setup(t, withRooms(t))
	h := b.Internal()
	for _, verb := range []string{"queue_num", "serving_num", "waiting_num", "queue_pos_expiry", "public_key", "num_active_tokens", "expired_tokens"} {
		for _, query := range []string{"", "?event_id=", "?event_id=none", "?event_id=%00", "?event_id=../x", "?event_id=" + strings.Repeat("a", 5000), "?event_id=a&event_id=b", "?event_id=%zz"} {
			if w := vwrCall(t, h, "GET", verb, query, 400); !strings.HasPrefix(w.Body.String(), `{"error":"Invalid`) {
				t.Errorf("%s%.40s: %s", verb, query, w.Body)
			}
		}
	}
	for _, verb := range []string{"assign_queue_num", "generate_token", "increment_serving_counter", "update_session", "reset_initial_state"} {
		for _, body := range []string{`{}`, `[]`, `null`, `{`, `{"event_id":7}`, `{"event_id":null,"status":1}`, `{"event_id":"none","increment_by":1,"status":1}`, `{"EVENT_ID":"none","status":1}`} {
			if w := vwrCall(t, h, "POST", verb, body, 400); !strings.HasPrefix(w.Body.String(), `{"error":"Invalid`) {
				t.Errorf("%s %s: %s", verb, body, w.Body)
			}
		}
		if w := call(h, "POST", "/vwr/"+verb, `{"event_id":"`+strings.Repeat("a", 64<<10)+`"}`); w.Code != 413 {
			t.Errorf("%s: %d", verb, w.Code)
		}
		if w := call(h, "POST", "/vwr/"+verb, `event_id=door`, "Content-Type", "text/plain"); w.Code != 415 {
			t.Errorf("%s: %d", verb, w.Code)
		}
	}
}

// TestVWRIsCharged: the rules charge public calls once, and refuse with a problem.
func TestVWRIsCharged(t *testing.T) {
	b := setup(t, withRooms(t))
	vwrRoom(t, b, "door", "fifo", "")
	id := vwrID(t, b.Public(), "door")
	b.gate.decision = admission.Decision{Reason: admission.RateLimited, Rules: []admission.Verdict{{Rule: "api", Limit: 1, Reason: admission.RateLimited}}}
	for verb, method := range map[string]string{
		"assign_queue_num": "POST", "queue_num": "GET", "serving_num": "GET", "waiting_num": "GET", "queue_pos_expiry": "GET", "generate_token": "POST", "public_key": "GET",
	} {
		parameters := "?event_id=door&request_id=" + id
		if method == "POST" {
			parameters = vwrIn("door", id, "")
		}
		b.gate.asked = nil
		vwrCall(t, b.Public(), method, verb, parameters, 429)
		if len(b.gate.asked) != 1 || b.gate.asked[0].Route != "/vwr/"+verb {
			t.Errorf("%s: %+v", verb, b.gate.asked)
		}
	}
	for _, verb := range []string{"increment_serving_counter", "update_session", "num_active_tokens", "expired_tokens", "reset_initial_state"} {
		for _, method := range []string{"GET", "POST"} {
			if w := call(b.Public(), method, "/vwr/"+verb, ""); w.Code != 404 {
				t.Errorf("public: %s %s: %d", method, verb, w.Code)
			}
		}
	}
}

// TestVWRLogsNoRequestIDs: they stand in queries, and this log has none of them.
func TestVWRLogsNoRequestIDs(t *testing.T) {
	var logged bytes.Buffer
	b := setup(t, withRooms(t), func(cfg *Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	vwrRoom(t, b, "door", "fifo", anybody)
	logged.Reset()
	id := vwrID(t, b.Public(), "door", "X-User-ID", "")
	vwrCall(t, b.Public(), "GET", "queue_num", "?event_id=door&request_id="+id, 200)
	vwrCall(t, b.Public(), "GET", "queue_pos_expiry", "?event_id=door&request_id="+id+"x", 404)
	if text := logged.String(); strings.Contains(text, id[:16]) || !strings.Contains(text, "route=/vwr/queue_num") {
		t.Error(text)
	}
}

// TestVWRDocument: docs/vwr.md names every verb.
func TestVWRDocument(t *testing.T) {
	doc, err := os.ReadFile("../../docs/vwr.md")
	if err != nil {
		t.Fatal(err)
	}
	for path := range documentOf(t, setup(t, withRooms(t)).Internal())["paths"].(map[string]any) {
		if verb, ok := strings.CutPrefix(path, "/vwr/"); ok && !strings.Contains(string(doc), "`"+verb) && !strings.Contains(string(doc), "/"+verb) {
			t.Errorf("%s is not documented", verb)
		}
	}
}
