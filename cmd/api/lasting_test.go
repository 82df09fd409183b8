package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// endsWithin is how long an answer may go on after the program refuses a new request with the same token.
const endsWithin = 2 * time.Second

// lastingCalls are the calls whose answers wait or stream, by listener and operation. {order} and {after} are replaced.
var lastingCalls = map[string]map[string]lastingCall{
	"internal": {
		"get-order":      {path: "/v1/orders/{order}?while=confirmed&wait_ms=30000"},
		"get-place":      {path: "/v1/rooms/hall/place?wait_ms=30000", user: true, roles: []string{"operator", "admit"}},
		"order-events":   {path: "/v1/order-events?after={after}&wait_ms=30000"},
		"acquire-permit": {path: "/v1/semaphores/one/permits", body: `{"holder":"h","wait_ms":30000}`, roles: []string{"operator", "admit"}},
		"events":         {path: "/events", roles: []string{"operator", "viewer"}},
		"room-events":    {path: "/v1/rooms/hall/events"},
		"orders-csv":     {path: "/v1/sales/concert/orders.csv", roles: []string{"operator", "admit"}}, // all permits are taken, so it waits
		"places-csv":     {path: "/v1/rooms/hall/places.csv", roles: []string{"operator", "admit"}},
		"draw-csv":       {}, // it waits for nothing: see TestRevokedReaders in package attachment
	},
	"public": {
		"get-order":   {path: "/v1/orders/{order}?while=confirmed&wait_ms=30000", user: true},
		"get-place":   {path: "/v1/rooms/hall/place?wait_ms=30000", user: true},
		"room-events": {path: "/v1/rooms/hall/events", user: true},
		"draw-csv":    {},
	},
}

type lastingCall struct {
	path, body string
	user       bool     // with the user's JWT
	roles      []string // that may make it on the internal listener; nil: also viewers
}

// lastingOperations returns the operations of a listener that wait, stream or send a file, as its document describes them.
func lastingOperations(t *testing.T, at string) (names []string) {
	t.Helper()
	var described struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Schemas map[string]json.RawMessage }
	}
	servetest.Call("GET", at+"/openapi.json", "").Into(t, &described)
	reference := regexp.MustCompile(`#/components/schemas/(\w+)`)
	for _, methods := range described.Paths {
		for _, raw := range methods {
			var op struct {
				OperationID string
				Parameters  json.RawMessage
				RequestBody json.RawMessage
				Responses   map[string]struct{ Content map[string]any }
			}
			if err := json.Unmarshal(raw, &op); err != nil {
				t.Fatal(err)
			}
			asked := string(op.Parameters) + string(op.RequestBody)
			for _, r := range reference.FindAllStringSubmatch(string(op.RequestBody), -1) {
				asked += string(described.Components.Schemas[r[1]])
			}
			content := op.Responses["200"].Content
			if strings.Contains(asked, `"wait_ms"`) || content["text/event-stream"] != nil || content["text/csv"] != nil {
				names = append(names, op.OperationID)
			}
		}
	}
	slices.Sort(names)
	return names
}

// lastingHall is a program whose lasting calls do not end by themselves within ten seconds.
type lastingHall struct {
	*servetest.Program

	t            *testing.T
	tokens, jwks string // files
	keys         keys
	order        string
	after        string // cursor of the feed
}

const staysOperator = "token-that-is-kept-here"

func newLastingHall(t *testing.T) *lastingHall {
	t.Helper()
	h := &lastingHall{t: t, tokens: writeFile(t, "tokens.yaml", ""), jwks: filepath.Join(t.TempDir(), "jwks.json"), keys: newKeys(t)}
	h.setTokens(tokensOfAllRoles)
	h.keys.write(t, h.jwks, "1")
	h.Program = startWith(t, map[string]string{"TOKENS_FILE": h.tokens, "IDENTITY": "jwt", "JWT_JWKS_FILE": h.jwks})
	internal, kept := h.URL("internal"), []string{"X-Tidegate-Token", staysOperator}
	servetest.OpenSale(t, internal, "concert", servetest.Sale("ticket", 5), kept...)
	user := []string{"Authorization", "Bearer " + h.jwt(time.Hour)}
	var o order
	servetest.Until(t, http.StatusAccepted, func() servetest.Answer {
		return servetest.Call("POST", h.URL("public")+"/v1/sales/concert/orders", `{"item":"ticket"}`, user...)
	}).Into(t, &o)
	h.order = o.OrderID
	if a := servetest.Call("GET", h.URL("public")+"/v1/orders/"+h.order+"?wait_ms=30000", "", user...); !strings.Contains(string(a.Body), `"confirmed"`) {
		t.Fatal(a)
	}
	var feed struct {
		NextCursor string `json:"next_cursor"`
	}
	servetest.Call("GET", internal+"/v1/order-events", "", kept...).Into(t, &feed)
	h.after = feed.NextCursor
	hall := fmt.Sprintf(`{"mode":"draw","gather_at":%q,"starts_at":%q}`, time.Now().Add(-time.Minute).UTC().Format(time.RFC3339), time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	for _, prepare := range []struct{ method, path, body string }{
		{"PUT", "/v1/rooms/hall", hall},
		{"PUT", "/v1/semaphores/one", `{"limit":1,"lease_ms":60000}`},
		{"POST", "/v1/semaphores/one/permits", `{"holder":"h","wait_ms":10000}`},
		{"POST", "/v1/semaphores/report/permits", `{"holder":"h"}`},
		{"POST", "/v1/semaphores/report/permits", `{"holder":"h"}`},
	} {
		if a := servetest.Call(prepare.method, internal+prepare.path, prepare.body, kept...); a.Status/100 != 2 {
			t.Fatal(prepare.path, a)
		}
	}
	servetest.Until(t, http.StatusCreated, func() servetest.Answer {
		return servetest.Call("POST", h.URL("public")+"/v1/rooms/hall/place", "", user...)
	})
	return h
}

func (h *lastingHall) setTokens(list string) {
	h.t.Helper()
	list += "- {name: kept, role: operator, token: " + staysOperator + "}\n"
	err := os.WriteFile(h.tokens+".new", []byte(list), 0o600)
	if err == nil {
		err = os.Rename(h.tokens+".new", h.tokens)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *lastingHall) jwt(life time.Duration) string {
	return h.keys.tokens("1", jwtClaims{"sub": "ada", "exp": time.Now().Add(life).Unix()})["EdDSA"]
}

// openAnswer is a call that was sent.
type openAnswer struct {
	name  string
	ended chan servetest.Answer
}

// open sends a call, and returns when the program must have it: a stream has begun, or the request was written before a later one was answered.
func (h *lastingHall) open(name, url, body string, fields ...string) *openAnswer {
	h.t.Helper()
	began, a := make(chan struct{}, 2), &openAnswer{name, make(chan servetest.Answer, 1)}
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	ctx := httptrace.WithClientTrace(h.t.Context(), &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { began <- struct{}{} }})
	go func() {
		req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
		if err != nil {
			a.ended <- servetest.Answer{Err: err}
			return
		}
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		for i := 0; i < len(fields); i += 2 {
			req.Header.Set(fields[i], fields[i+1])
		}
		transport := &http.Transport{DisableKeepAlives: true}
		defer transport.CloseIdleConnections()
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			a.ended <- servetest.Answer{Err: err}
			return
		}
		defer resp.Body.Close()
		content, err := io.ReadAll(resp.Body)
		a.ended <- servetest.Answer{Status: resp.StatusCode, Header: resp.Header, Body: content, Err: err}
	}()
	<-began
	for range 3 {
		servetest.Call("GET", h.URL("internal")+"/livez", "")
	}
	return a
}

// openAll sends all lasting calls of a listener for which with returns fields.
func (h *lastingHall) openAll(listener string, with func(c lastingCall) []string) (all []*openAnswer) {
	h.t.Helper()
	for name, c := range lastingCalls[listener] {
		if fields := with(c); c.path != "" && fields != nil {
			path := strings.NewReplacer("{order}", h.order, "{after}", h.after).Replace(c.path)
			all = append(all, h.open(listener+" "+name, h.URL(listener)+path, c.body, fields...))
		}
	}
	return all
}

// end requires that all calls end within a moment: 401, or the end of a stream.
func (h *lastingHall) end(all []*openAnswer) {
	h.t.Helper()
	if len(all) < 3 {
		h.t.Errorf("only %d calls are open", len(all))
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), endsWithin)
	defer cancel()
	for _, a := range all {
		select {
		case got := <-a.ended:
			stream := strings.HasPrefix(got.Header.Get("Content-Type"), "text/event-stream")
			if got.Err != nil || stream && got.Status != http.StatusOK || !stream && (got.Status != http.StatusUnauthorized || !strings.Contains(string(got.Body), `"unauthenticated"`)) {
				h.t.Errorf("%s ends with %v", a.name, got)
			}
		case <-ctx.Done():
			h.t.Errorf("%s goes on after %v", a.name, endsWithin)
		}
	}
}

// TestAnswersEndWithTheirToken opens every answer that waits or streams, on the real program, and revokes what let its caller in.
func TestAnswersEndWithTheirToken(t *testing.T) {
	h := newLastingHall(t)
	for listener, calls := range lastingCalls {
		var listed []string
		for name := range calls {
			listed = append(listed, name)
		}
		slices.Sort(listed)
		if described := lastingOperations(t, h.URL(listener)); !slices.Equal(described, listed) {
			t.Fatalf("%s: answers of %q wait or stream, and this test has %q", listener, described, listed)
		}
	}
	internal := h.URL("internal")
	refused := func(method, url string, fields ...string) {
		t.Helper()
		servetest.Until(t, http.StatusUnauthorized, func() servetest.Answer { return servetest.Call(method, url, "", fields...) })
	}
	user := []string{"Authorization", "Bearer " + h.jwt(time.Hour)}

	for role, token := range map[string]string{"operator": "token-of-an-operator", "admit": "token-of-a-service", "viewer": "token-of-a-viewer"} {
		t.Run("token of "+role, func(t *testing.T) {
			h := *h
			h.t = t
			all := h.openAll("internal", func(c lastingCall) []string {
				switch {
				case c.roles != nil && !slices.Contains(c.roles, role):
					return nil
				case c.user:
					return append([]string{"X-Tidegate-Token", token}, user...)
				}
				return []string{"X-Tidegate-Token", token}
			})
			h.setTokens(strings.Replace(tokensOfAllRoles, token, "another-"+token, 1))
			servetest.Until(t, http.StatusUnauthorized, func() servetest.Answer {
				return servetest.Call("GET", internal+"/v1/sales/concert", "", "X-Tidegate-Token", token)
			})
			h.end(all)
			h.setTokens(tokensOfAllRoles)
			servetest.Until(t, http.StatusOK, func() servetest.Answer {
				return servetest.Call("GET", internal+"/v1/sales/concert", "", "X-Tidegate-Token", token)
			})
		})
	}

	t.Run("session", func(t *testing.T) {
		h := *h
		h.t = t
		begun := servetest.Call("POST", internal+"/session", `{"token":"`+staysOperator+`"}`)
		cookie, _, _ := strings.Cut(begun.Header.Get("Set-Cookie"), ";")
		fields := []string{"Cookie", cookie, "Sec-Fetch-Site", "same-origin"}
		all := h.openAll("internal", func(c lastingCall) []string {
			if c.user {
				return append(fields, user...)
			}
			return fields
		})
		if a := servetest.Call("DELETE", internal+"/session", "", fields...); a.Status != http.StatusNoContent {
			t.Fatal(a)
		}
		h.end(all)
	})

	t.Run("expired JWT", func(t *testing.T) {
		h := *h
		h.t = t
		const life = 3 * time.Second
		brief := []string{"Authorization", "Bearer " + h.jwt(life)}
		all := append(h.openAll("public", func(lastingCall) []string { return brief }), h.openAll("internal", func(c lastingCall) []string {
			if c.user {
				return append([]string{"X-Tidegate-Token", staysOperator}, brief...)
			}
			return nil
		})...)
		refused("GET", h.URL("public")+"/v1/rooms/hall", brief...)
		h.end(all)
	})

	t.Run("withdrawn key", func(t *testing.T) {
		h := *h
		h.t = t
		all := append(h.openAll("public", func(lastingCall) []string { return user }), h.openAll("internal", func(c lastingCall) []string {
			if c.user {
				return append([]string{"X-Tidegate-Token", staysOperator}, user...)
			}
			return nil
		})...)
		newKeys(t).write(t, h.jwks, "1")
		refused("GET", h.URL("public")+"/v1/rooms/hall", user...)
		h.end(all)
	})
}
