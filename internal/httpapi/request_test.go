package httpapi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/orders"
)

func TestRequestID(t *testing.T) {
	b := setup(t)
	for sent, echoed := range map[string]bool{
		"abc-123": true, strings.Repeat("x", 128): true, strings.Repeat("x", 129): false, "a b": false, "a\x00": false, "é": false, "": false,
	} {
		w := call(b.Public(), "GET", "/livez", "", "X-Request-Id", sent)
		got := w.Header().Get("X-Request-Id")
		if (got == sent) != echoed || len(got) < 7 {
			t.Errorf("%.20q is answered %.20q", sent, got)
		}
	}
}

func TestPanic(t *testing.T) {
	for _, body := range []string{`{"item":"shoe"}`, `{"item":"sh\u006fe"}`} {
		b := setup(t)
		b.orders.panics = true
		w := call(b.Public(), "POST", placePath, body, "X-Request-Id", "r-1")
		p := problemIn(t, w)
		if p.Status != 500 || p.Reason != "internal" || p.Instance != "urn:tidegate:request:r-1" || strings.Contains(w.Body.String(), "hunter2") {
			t.Errorf("%+v", p)
		}
		if log := b.logged.String(); strings.Count(log, "level=ERROR") != 1 || !strings.Contains(log, "request_id=r-1") || !strings.Contains(log, "hunter2") {
			t.Errorf("%s", log)
		}
	}
}

// TestPanicInTheMiddle: a partial response must not look complete.
func TestPanicInTheMiddle(t *testing.T) {
	b := setup(t)
	b.public.GET("/half", func(c echo.Context) error {
		_, _ = io.WriteString(c.Response(), "half")
		panic("of it")
	})
	defer func() {
		if thrown, _ := recover().(error); !errors.Is(thrown, http.ErrAbortHandler) {
			t.Errorf("%v", thrown)
		}
	}()
	call(b.Public(), "GET", "/half", "")
	t.Error("went on")
}

func TestMethodNotAllowed(t *testing.T) {
	b := setup(t)
	for _, tt := range []struct{ method, path, allow string }{
		{"DELETE", "/v1/sales/flash/orders", "OPTIONS, GET, POST"},
		{"POST", "/v1/sales/flash", "OPTIONS, GET"},
		{"PATCH", "/v1/orders/x", "OPTIONS, GET"},
		{"POST", "/livez", "OPTIONS, GET"},
		{"BREW", "/docs", "OPTIONS, GET"},
	} {
		w := call(b.Public(), tt.method, tt.path, "")
		if p := problemIn(t, w); p.Status != 405 || p.Reason != "method_not_allowed" || w.Header().Get("Allow") != tt.allow {
			t.Errorf("%s %s: %+v %v", tt.method, tt.path, p, w.Header())
		}
	}
	if p := problemIn(t, call(b.Internal(), "GET", "/v1/sales/flash/open", "")); p.Status != 405 {
		t.Errorf("%+v", p)
	}
}

func TestCORS(t *testing.T) {
	preflight := []string{"Origin", "https://shop.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "idempotency-key"}
	b := setup(t, func(c *Config) { c.CORSOrigins = []string{"https://shop.example"} })
	w := call(b.Public(), "OPTIONS", placePath, "", preflight...)
	h := w.Header()
	if w.Code != 204 || h.Get("Access-Control-Allow-Origin") != "https://shop.example" || !strings.Contains(h.Get("Access-Control-Allow-Methods"), "POST") ||
		!strings.Contains(h.Get("Access-Control-Allow-Headers"), "Idempotency-Key") || h.Get("Access-Control-Allow-Credentials") != "true" {
		t.Errorf("%d %v", w.Code, h)
	}
	if len(b.gate.asked) != 0 {
		t.Error("a preflight was charged")
	}
	w = call(b.Public(), "POST", placePath, `{"item":"shoe"}`, "Origin", "https://shop.example")
	exposed := w.Header().Get("Access-Control-Expose-Headers")
	for _, name := range []string{"Location", "Retry-After", "RateLimit", "RateLimit-Policy", "Idempotency-Replayed", "X-Request-Id"} {
		if !strings.Contains(exposed, name) {
			t.Errorf("%s is not exposed: %s", name, exposed)
		}
	}
	// Pages must be able to read refusals too.
	if w := call(b.Public(), "GET", "/v1/sales/none", "", "Origin", "https://shop.example"); w.Header().Get("Access-Control-Allow-Origin") == "" {
		t.Errorf("%v", w.Header())
	}
	for name, h := range map[string]http.Handler{"other origin": b.Public(), "internal": b.Internal(), "none configured": setup(t).Public()} {
		fields := preflight
		if name == "other origin" {
			fields = append([]string{}, preflight...)
			fields[1] = "https://evil.example"
		}
		if w := call(h, "OPTIONS", placePath, "", fields...); w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", name, w.Header())
		}
	}
	for _, origins := range [][]string{{"*"}, {"*", "https://shop.example"}, {"https://shop.example", "*"}} {
		all := setup(t, func(c *Config) { c.CORSOrigins = origins })
		for _, method := range []string{"OPTIONS", "GET"} {
			if h := call(all.Public(), method, placePath, "", preflight...).Header(); h.Get("Access-Control-Allow-Origin") == "" || h.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%q: %s: %v", origins, method, h)
			}
		}
	}
	for _, origin := range []string{"", "shop.example", "https://shop.example/", "https://*.example/x", "ftp://shop.example", "https://"} {
		if _, err := New(Config{Orders: b.orders, Gate: b.gate, Identity: auth.HeaderIdentity{}, CORSOrigins: []string{origin}}); err == nil {
			t.Errorf("%q was taken", origin)
		}
	}
}

// TestFrames: who may show the page of a room in a frame.
func TestFrames(t *testing.T) {
	for want, origins := range map[string][]string{"'self'": nil, "'self' https://shop.example": {"https://shop.example"}, "'self' ": {"*", "https://shop.example"}} {
		b := setup(t, withRooms(t), func(c *Config) { c.CORSOrigins = origins })
		policy := call(b.Public(), "GET", "/rooms/unknown", "").Header().Get("Content-Security-Policy")
		if _, ancestors, _ := strings.Cut(policy, "frame-ancestors "); ancestors != strings.TrimSpace(want) {
			t.Errorf("%q: %s", origins, policy)
		}
	}
}

func TestReady(t *testing.T) {
	opening := false
	b := setup(t, func(c *Config) { c.Opening = func() bool { return opening } })
	away := errors.New("dial tcp 10.1.2.3:5432\n\thost: refused")
	for detail, conditions := range map[string][]orders.Condition{
		"database: the database does not answer": {{Cause: orders.CauseDatabase, Detail: "the database does not answer", Err: away}},
		"redis: Redis does not answer; database: the database does not answer": {
			{Cause: orders.CauseRedis, Detail: "Redis does not answer", Err: away},
			{Cause: orders.CauseDatabase, Detail: "the database does not answer", Err: away},
		},
		"loading: the sales are not loaded yet": {{Cause: "slow", Serves: true}, {Cause: orders.CauseLoading, Detail: "the sales are not loaded yet"}},
	} {
		b.orders.conditions = conditions
		w := call(b.Public(), "GET", "/readyz", "")
		if p := problemIn(t, w); p.Status != 503 || p.Detail != detail || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%+v", p)
		}
		if w := call(b.Public(), "GET", "/livez", ""); w.Code != 200 {
			t.Errorf("livez asked somebody: %d", w.Code)
		}
	}
	b.orders.conditions = []orders.Condition{{Cause: "slow", Serves: true}}
	if w := call(b.Public(), "GET", "/readyz", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"degraded":["slow"]`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	b.orders.conditions = nil
	if w := call(b.Public(), "GET", "/readyz", ""); w.Code != 200 || strings.Contains(w.Body.String(), "degraded") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	// Without counts requests are still served, as each rule defines.
	b.gate.stats.Memory = []memorystore.Stats{{}, {Late: true}}
	if w := call(b.Internal(), "GET", "/readyz", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"degraded":["memory"]`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	b.gate.stats.Memory = nil
	b.gate.stats.Degraded = true
	for _, h := range []http.Handler{b.Public(), b.Internal()} {
		if w := call(h, "GET", "/readyz", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"degraded":["admission"]`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	if w := call(b.Public(), "GET", "/livez", ""); strings.Contains(w.Body.String(), "degraded") {
		t.Errorf("%s", w.Body)
	}
	opening = true
	if p := problemIn(t, call(b.Internal(), "GET", "/readyz", "")); p.Status != 503 || p.Detail != "loading: the public listener is not open yet" {
		t.Errorf("%+v", p)
	}
	b.Drain()
	for _, h := range []http.Handler{b.Public(), b.Internal()} {
		if p := problemIn(t, call(h, "GET", "/readyz", "")); p.Status != 503 || p.Reason != "draining" || p.Type != "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity" {
			t.Errorf("%+v", p)
		}
	}
}

func TestNewNeedsItsParts(t *testing.T) {
	b := setup(t)
	for _, cfg := range []Config{{}, {Orders: b.orders, Gate: b.gate}, {Orders: b.orders, Identity: auth.HeaderIdentity{}}, {Gate: b.gate, Identity: auth.HeaderIdentity{}}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v was enough", cfg)
		}
	}
}

// TestServerCutsOffChunks: a body of unknown length is limited too, over a real connection.
func TestServerCutsOffChunks(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.Config = Server(setup(t).Public(), 0)
	server.Start()
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST "+placePath+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
	chunk := strings.Repeat(" ", 1<<10)
	for range 65 {
		fmt.Fprintf(conn, "%x\r\n%s\r\n", len(chunk), chunk)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != 413 || answer.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %v", answer.StatusCode, answer.Header)
	}
	if s := server.Config; s.WriteTimeout <= maxWait || s.ReadTimeout <= maxWait || s.ReadHeaderTimeout == 0 || s.IdleTimeout == 0 || s.MaxHeaderBytes == 0 {
		t.Errorf("%+v", s)
	}
}

// TestAStoreThatIsAwayIsLogged: the log has the cause, once in a while, and the caller never.
func TestAStoreThatIsAwayIsLogged(t *testing.T) {
	b := setup(t)
	b.orders.err = fmt.Errorf("%w: redis: dial 10.1.2.3: no route", orders.ErrUnavailable)
	for range 5 {
		if w := call(b.Public(), "GET", "/v1/sales/flash", ""); w.Code != 503 || strings.Contains(w.Body.String(), "10.1.2.3") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	log := b.logged.String()
	if n := strings.Count(log, "10.1.2.3: no route"); n != 1 || !strings.Contains(log, "level=WARN") || !strings.Contains(log, "request_id=") {
		t.Errorf("logged %d times:\n%s", n, log)
	}
}
