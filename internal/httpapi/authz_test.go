package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/httpapi/admit"
)

// gatewayCall calls as a gateway at 10.0.0.1, which is a trusted proxy, with fields about its client.
func gatewayCall(b *bed, method, target string, fields ...string) *httptest.ResponseRecorder {
	return call(b.Internal(), method, target, "", append([]string{"Remote", "10.0.0.1:5000", "X-User-ID", ""}, fields...)...)
}

func TestAuthzAsks(t *testing.T) {
	client := netip.MustParseAddr("198.51.100.9")
	for name, tt := range map[string]struct {
		method, target string
		fields         []string
		want           admission.Request
	}{
		"nginx": {
			"GET", "/v1/authz?deny=403",
			[]string{"X-Original-URI", "/v1/sales/flash/orders?x=1", "X-Original-Method", "POST", "X-Forwarded-For", "198.51.100.9", "X-User-ID", "ada"},
			admission.Request{User: "ada", IP: client, Route: "/v1/sales/flash/orders", Method: "POST"},
		},
		"Traefik": {
			"GET", "/v1/authz",
			[]string{
				"X-Forwarded-Uri", "/v1/orders?x=/../y", "X-Forwarded-Method", "DELETE", "X-Forwarded-For", "198.51.100.9", "X-Forwarded-Host", "Shop.Example:443",
				"X-Forwarded-Proto", "https", "X-User-ID", "ada", "X-User-Tier", "gold",
			},
			admission.Request{User: "ada", Tier: "gold", IP: client, Route: "/v1/orders", Method: "DELETE", Attributes: map[string]string{"host": "shop.example"}},
		},
		"Caddy, the client's own method": {
			"POST", "/v1/authz",
			[]string{"X-Forwarded-Uri", "/", "X-Forwarded-Method", "POST", "X-Forwarded-For", "198.51.100.9"},
			admission.Request{IP: client, Route: "/", Method: "POST"},
		},
		"Envoy": {
			"PUT", "/v1/authz/v1/%6frders//x%2Fy/?deny=403&x",
			[]string{"X-Forwarded-For", "1.1.1.1, 198.51.100.9", "Host", "localhost:8081", "X-Forwarded-Uri", "/forged"},
			admission.Request{IP: client, Route: "/v1/orders/x/y", Method: "PUT", Attributes: map[string]string{"host": "localhost"}},
		},
		"Envoy, a method of WebDAV": {
			"PROPFIND", "/v1/authz/files/",
			[]string{"X-Forwarded-For", "198.51.100.9"},
			admission.Request{IP: client, Route: "/files", Method: "PROPFIND", Attributes: map[string]string{"host": "localhost"}},
		},
		"Envoy, the root": {
			"GET", "/v1/authz/",
			[]string{"X-Forwarded-For", "198.51.100.9"},
			admission.Request{IP: client, Route: "/", Method: "GET", Attributes: map[string]string{"host": "localhost"}},
		},
		"attributes": {
			"GET", "/v1/authz",
			[]string{
				"X-Forwarded-Uri", "/x", "X-Forwarded-Method", "GET", "X-Forwarded-For", "198.51.100.9", "X-Forwarded-Host", "shop.example",
				"x-tidegate-attribute-Plan", "gold", "X-Tidegate-Attribute-API-Key", "k 1", "X-Tidegate-Attribute-Seat_No.", "7",
				"X-Tidegate-Attribute-Empty", "", "X-Tidegate-Attribute-Device", "d1", "X-Tidegate-Attribute-Session", "s1", "X-Tidegate-Token", "t",
			},
			admission.Request{
				IP: client, Route: "/x", Method: "GET", Device: "d1", Session: "s1",
				Attributes: map[string]string{"plan": "gold", "api-key": "k 1", "seat_no.": "7", "host": "shop.example"},
			},
		},
		"HEAD": {
			"HEAD", "/v1/authz",
			[]string{"X-Forwarded-Uri", "/x", "X-Forwarded-Method", "HEAD", "X-Forwarded-For", "198.51.100.9"},
			admission.Request{IP: client, Route: "/x", Method: "GET"},
		},
	} {
		b := setup(t)
		w := gatewayCall(b, tt.method, tt.target, tt.fields...)
		if w.Code != 200 || len(b.gate.asked) != 1 {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
			continue
		}
		if got := b.gate.asked[0]; fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", tt.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAuthzAnswers(t *testing.T) {
	asked := []string{"X-Forwarded-Uri", "/v1/orders", "X-Forwarded-Method", "POST", "X-Forwarded-For", "198.51.100.9"}
	window := admission.Verdict{Rule: "api", Limit: 10, Window: time.Minute, Admitted: true, Remaining: 3, ResetAfter: 20*time.Second + 1}
	full := admission.Verdict{Rule: "api", Limit: 10, Window: time.Minute, Reason: admission.RateLimited, RetryAfter: 20*time.Second + 1}
	for name, tt := range map[string]struct {
		decision              admission.Decision
		err                   error
		status                int
		reason, retry, limits string
	}{
		"admitted":   {decision: admission.Decision{Admitted: true, Rules: []admission.Verdict{window}}, status: 200, limits: `"api";r=3;t=21`},
		"limited":    {decision: admission.Decision{Reason: admission.RateLimited, RetryAfter: 20*time.Second + 1, Rules: []admission.Verdict{full}}, status: 429, reason: "rate_limited", retry: "21", limits: `"api";r=0;t=21`},
		"too costly": {decision: admission.Decision{Reason: admission.CostAboveLimit}, status: 429, reason: "cost_above_limit"},
		"banned":     {decision: admission.Decision{Reason: admission.Banned, RetryAfter: time.Hour}, status: 403, reason: "banned", retry: "3600"},
		"forbidden":  {decision: admission.Decision{Reason: admission.Forbidden}, status: 403, reason: "forbidden"},
		"challenged": {decision: admission.Decision{Reason: admission.CaptchaRequired}, status: 403, reason: "captcha_required"},
		"no store":   {err: admission.ErrUnavailable, status: 503, reason: "store_unavailable", retry: "1"},
	} {
		b := setup(t)
		b.gate.decision, b.gate.err = tt.decision, tt.err
		for _, target := range []string{"/v1/authz", "/v1/authz?deny=403"} {
			w := gatewayCall(b, "GET", target, asked...)
			h := w.Header()
			status, said := tt.status, ""
			if target != "/v1/authz" && status != 200 {
				status, said = 403, fmt.Sprint(tt.status)
			}
			if w.Code != status || h.Get("X-Admission-Status") != said || h.Get("Retry-After") != tt.retry || h.Get("RateLimit") != tt.limits || h.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %d %v", name, w.Code, h)
			}
			if tt.limits != "" && h.Get("RateLimit-Policy") != `"api";q=10;w=60` {
				t.Errorf("%s: %v", name, h)
			}
			if status == 200 {
				if w.Body.Len() != 0 {
					t.Errorf("%s: %s", name, w.Body)
				}
				continue
			}
			if p := problemIn(t, w); p.Reason != tt.reason {
				t.Errorf("%s: %+v", name, p)
			}
		}
	}
}

func TestAuthzHostile(t *testing.T) {
	for name, fields := range map[string][]string{
		"nothing":                {},
		"no method":              {"X-Forwarded-Uri", "/x"},
		"no URI":                 {"X-Forwarded-Method", "GET"},
		"method of the other":    {"X-Original-Uri", "/x", "X-Forwarded-Method", "GET"},
		"both families":          {"X-Forwarded-Uri", "/x", "X-Forwarded-Method", "GET", "X-Original-Uri", "/x", "X-Original-Method", "GET"},
		"no path":                {"X-Forwarded-Uri", "x", "X-Forwarded-Method", "GET"},
		"badly escaped":          {"X-Forwarded-Uri", "/%zz", "X-Forwarded-Method", "GET"},
		"another deny":           {"?", "?deny=404", "X-Forwarded-Uri", "/x", "X-Forwarded-Method", "GET"},
		"two URIs":               {"+X-Forwarded-Uri", "/y", "X-Forwarded-Uri", "/x", "X-Forwarded-Method", "GET"},
		"two methods":            {"+X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/x", "X-Forwarded-Method", "GET"},
		"two hosts":              {"+X-Forwarded-Host", "a", "X-Forwarded-Host", "b", "X-Forwarded-Uri", "/x", "X-Forwarded-Method", "GET"},
		"two users":              {"+X-User-Id", "eve", "X-User-Id", "ada", "X-Forwarded-Uri", "/x", "X-Forwarded-Method", "GET"},
		"two users, one empty":   {"+X-User-Id", "", "X-User-Id", "ada", "X-Forwarded-Uri", "/x", "X-Forwarded-Method", "GET"},
		"two tiers":              {"+X-User-Tier", "gold", "X-User-Tier", "ada", "X-Forwarded-Uri", "/x", "X-Forwarded-Method", "GET"},
		"two tokens of a caller": {"+Authorization", "Bearer a", "Authorization", "Bearer b", "X-Forwarded-Uri", "/x", "X-Forwarded-Method", "GET"},
	} {
		b := setup(t)
		r := httptest.NewRequest("GET", "/v1/authz", nil)
		r.RemoteAddr, r.Host = "10.0.0.1:5000", "localhost"
		for i := 0; i < len(fields); i += 2 {
			switch n, v := fields[i], fields[i+1]; {
			case n == "?":
				r.URL.RawQuery = v[1:]
			default:
				r.Header.Add(strings.TrimPrefix(n, "+"), v)
			}
		}
		w := httptest.NewRecorder()
		b.Internal().ServeHTTP(w, r)
		if p := problemIn(t, w); p.Status != 422 || len(b.gate.asked) != 0 {
			t.Errorf("%s: %+v %+v", name, p, b.gate.asked)
		}
	}
}

// TestPitfall_P31_SpoofedForwardedFor: fields that a client may have written itself are only used from trusted proxies.
func TestPitfall_P31_SpoofedForwardedFor(t *testing.T) {
	asked := []string{"X-Forwarded-Uri", "/x", "X-Forwarded-Method", "GET", "X-User-ID", "ada", "X-User-Tier", "gold"}
	for _, tt := range []struct{ name, remote, forwarded, ip, user, tier string }{
		{"an address in front of the client's", "10.0.0.1:5", "203.0.113.1, 198.51.100.9", "198.51.100.9", "ada", "gold"},
		{"the gateway's own address", "10.0.0.1:5", "10.0.0.1, 198.51.100.9", "198.51.100.9", "ada", "gold"},
		{"a proxy behind the gateway", "10.0.0.1:5", "203.0.113.1, 198.51.100.9, 10.0.0.2", "198.51.100.9", "ada", "gold"},
		{"garbage", "10.0.0.1:5", "203.0.113.1, unknown", "10.0.0.1", "ada", "gold"},
		{"IPv4 in IPv6", "[::ffff:10.0.0.1]:5", "::ffff:198.51.100.9", "198.51.100.9", "ada", "gold"},
		{"no trusted gateway", "192.0.2.7:5", "203.0.113.1", "192.0.2.7", "", ""},
		{"a gateway on this machine that is no trusted proxy", "127.0.0.1:5", "203.0.113.1", "127.0.0.1", "", ""},
	} {
		b := setup(t, withTokens(t))
		w := gatewayCall(b, "GET", "/v1/authz", append(asked, "Remote", tt.remote, "X-Forwarded-For", tt.forwarded, "X-Tidegate-Token", "admit-token-of-tests")...)
		if w.Code != 200 {
			t.Errorf("%s: %d %s", tt.name, w.Code, w.Body)
			continue
		}
		if got := b.gate.asked[0]; got.IP.String() != tt.ip || got.User != tt.user || got.Tier != tt.tier {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

// TestAuthzHandsOn: gateways forward a browser's origin, content type and content length.
func TestAuthzHandsOn(t *testing.T) {
	asked := []string{"X-Forwarded-Uri", "/x", "X-Forwarded-Method", "POST", "Origin", "https://shop.example", "Sec-Fetch-Site", "cross-site", "Content-Type", "text/plain"}
	open, guarded := setup(t), setup(t, withTokens(t))
	for _, method := range admit.AuthzMethods {
		if w := call(open.Internal(), method, "/v1/authz", "a body", asked...); w.Code != 200 {
			t.Errorf("%s: %d %s", method, w.Code, w.Body)
		}
		for _, target := range []string{"/v1/authz", "/v1/authz/x"} {
			w := call(guarded.Internal(), method, target, "a body", append(asked, "Host", "shop.example", "X-Tidegate-Token", "admit-token-of-tests")...)
			if w.Code != 200 {
				t.Errorf("%s: %d %s", method, w.Code, w.Body)
			}
		}
	}
	// Without tokens a page must not charge, and another host name must not reach this listener.
	if w := call(open.Internal(), "GET", "/v1/authz/x", "", "Origin", "https://shop.example"); w.Code != 403 {
		t.Errorf("a page charged: %d", w.Code)
	}
	if w := call(open.Internal(), "GET", "/v1/authz", "", append(asked, "Host", "evil.example")...); w.Code != 403 {
		t.Errorf("a rebound name charged: %d", w.Code)
	}
	if w := call(guarded.Internal(), "GET", "/v1/authz", "", append(asked, "X-Tidegate-Token", "metrics-token-of-tests")...); w.Code != 403 {
		t.Errorf("%d", w.Code)
	}
	if w := call(guarded.Internal(), "GET", "/v1/authz", "", asked...); w.Code != 401 {
		t.Errorf("%d", w.Code)
	}
}

// TestAuthzWaitsForNoBody: a Content-Length without a body must not delay the response.
func TestAuthzWaitsForNoBody(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.Config = Server(setup(t).Internal(), 0)
	server.Start()
	defer server.Close()
	for _, length := range []string{"Content-Length: 100", "Content-Length: 100000000", "Transfer-Encoding: chunked"} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(bodyWithin / 2))
		fmt.Fprint(conn, "GET /v1/authz HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-Uri: /x\r\nX-Forwarded-Method: POST\r\n"+length+"\r\n\r\n")
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", length, err)
			continue
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != 200 || !answer.Close {
			t.Errorf("%s: %d, closes %v", length, answer.StatusCode, answer.Close)
		}
	}
}

// TestAuthzWithASlash: a gateway that is set to the path with a slash would have every request decided as one for /.
func TestAuthzWithASlash(t *testing.T) {
	h := setup(t).Internal()
	for _, name := range []string{"X-Forwarded-Uri", "X-Original-Uri"} {
		if p := problemIn(t, call(h, "GET", "/v1/authz/", "", name, "/checkout")); p.Status != 422 || !strings.Contains(fmt.Sprint(p.Errors), "without the slash") {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if w := call(h, "GET", "/v1/authz/", ""); w.Code != 200 { // Envoy asks so about /
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestNothingIsKeptByDefault: caches keep only what a handler allows.
func TestNothingIsKeptByDefault(t *testing.T) {
	b := setup(t, withPage)
	for path, want := range map[string]string{
		"/livez": "no-store", "/openapi.json": "max-age=300", "/v1/rules": "no-store", "/metrics": "no-store", "/nothing": "no-store", "/v1/sales": "no-store", "/": "no-store",
	} {
		if got := call(b.Internal(), "GET", path, "").Header()["Cache-Control"]; len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
