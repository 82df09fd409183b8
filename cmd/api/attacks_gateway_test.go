package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// asGateway asks at authz as a gateway does for its client.
func asGateway(name, uri string, want int, fields ...string) attempt {
	return attempt{name: name, path: "/v1/authz", want: want, fields: append([]string{
		"X-Forwarded-Uri", uri, "X-Forwarded-Method", "GET", "X-Forwarded-For", "203.0.113.99",
	}, fields...)}
}

// A rule denies /admin/**, and no spelling of a path leads around it; nor does one lead to the internal listener's routes.
func (at *target) paths(g *group) {
	for _, uri := range []string{
		"/admin", "/admin/", "/admin/x", "//admin//x", "/./admin/x", "/a/../admin/x", "/../admin/x", "/a/../../admin", "/%61dmin/x", "/admin%2Fx",
		"/a/%2e%2e/admin/x", "/admin/x?y=/z", "/admin/x#y", "http://shop.example/admin/x",
	} {
		at.try(g, asGateway("denied "+uri, uri, http.StatusForbidden))
	}
	for _, uri := range []string{"/a/..%2fadmin/x", "/a%2f../admin/x", "/admin/..%2f..%2fx", "admin/x", `\admin`, "/%zz", "", `/x\..\admin`, "/x%5c..%5cadmin", "/x%5C", "/admin%00", "/x%00/admin", "/x%0d%0aX:y", "/x%09", "/x%1f", "/x%7f", "/%c0%aeadmin/x", "/%C1%A1dmin", "/%e0%80%afadmin", "/\xc0\xafadmin"} {
		at.try(g, asGateway("not taken "+uri, uri, http.StatusUnprocessableEntity))
	}
	for _, method := range []string{"get", "HEAD"} {
		a := asGateway("method "+method, "/admin", http.StatusForbidden)
		a.fields[3] = method
		at.try(g, a)
	}
	for _, path := range []string{
		"/", "/metrics", "//metrics", "/metrics/", "/v1/../metrics", "/%2e%2e/metrics", "/session", "/events", "/assets/main.js", "/v1/admit", "/v1/authz", "/v1/rules",
		"/v1/bans", "/v1/audit", "/v1/sales", "/v1/sales/spring/orders.csv", "/v1/orders/dead", "/v1/explain?user=x", "/koala/dump/policy",
	} {
		at.try(g, attempt{name: "public " + path, public: true, path: path, want: http.StatusNotFound})
	}
	for _, path := range []string{
		"/assets/../livez", "/assets/..%2f..%2fgo.mod", "/assets/%2e%2e/page.html", "/v1/sales/..%2f..%2fmetrics", "/v1/sales/spring%2Forders", "/v1/sales/spring/",
		"/v1/sales/%00", "/v1/sales/a%0d%0aX:y", "/v1/orders/", "/problems/..%2fx", "/problems/%3Cscript%3E",
	} {
		at.try(g, attempt{name: "internal " + path, path: path, want: http.StatusNotFound})
	}
}

// Whatever a gateway should have said once may be the client's own if it is there twice, or under two names.
func (at *target) envelopes(g *group) {
	bare := func(name string, want int, fields ...string) attempt {
		return attempt{name: name, path: "/v1/authz", want: want, fields: fields}
	}
	const invalid = http.StatusUnprocessableEntity
	at.try(g,
		bare("no URI", invalid, "X-Forwarded-Method", "GET"),
		bare("no method", invalid, "X-Forwarded-Uri", "/shop"),
		asGateway("two families", "/shop", invalid, "X-Original-URI", "/other"),
		asGateway("two URIs", "/shop", invalid, "X-Forwarded-Uri", "/other"),
		asGateway("two methods", "/shop", invalid, "X-Forwarded-Method", "POST"),
		asGateway("two hosts", "/shop", invalid, "X-Forwarded-Host", "a", "X-Forwarded-Host", "b"),
		asGateway("an attribute twice", "/shop", invalid, "X-Tidegate-Attribute-Plan", "gold", "X-Tidegate-Attribute-Plan", "lead"),
		asGateway("an attribute without a name", "/shop", invalid, "X-Tidegate-Attribute-", "x"),
		asGateway("an attribute with a long name", "/shop", invalid, "X-Tidegate-Attribute-"+strings.Repeat("n", 65), "x"),
		asGateway("an attribute with a long value", "/shop", invalid, "X-Tidegate-Attribute-Plan", strings.Repeat("x", 1025)),
	)
	for _, part := range []string{"User", "Tier", "Ip", "Route", "Method", "Host", "Caller", "Network"} {
		at.try(g, asGateway("a part as an attribute: "+part, "/shop", invalid, "X-Tidegate-Attribute-"+part, "x"))
	}
	for _, field := range []string{"X-User-ID", "X-User-Tier", "Authorization", "X-Tidegate-Token", "Idempotency-Key", "X-Captcha"} {
		at.try(g, asGateway("twice "+field, "/shop", invalid, field, operatorToken, field, operatorToken))
	}
	many := asGateway("too many attributes", "/shop", invalid)
	for i := range 65 {
		many.fields = append(many.fields, fmt.Sprint("X-Tidegate-Attribute-A", i), "x")
	}
	deny := func(name, query string, want int) attempt {
		a := asGateway(name, "/shop", want)
		a.path += query
		return a
	}
	at.try(g, many, deny("another deny", "?deny=404", invalid), deny("deny twice", "?deny=403&deny=403", http.StatusForbidden))
}

// A banned address is banned however it is written, and what is no address is none.
func (at *target) spellings(g *group) {
	for _, address := range []string{"203.0.113.7", "2001:db8::1"} {
		if a := at.send(g, attempt{method: "PUT", path: "/v1/bans/ip/" + address, body: `{"for_ms":3600000}`}); a.Status != http.StatusOK {
			g.Fatal(a)
		}
	}
	subject := func(ip string, want int, says string) attempt {
		return attempt{name: "subject " + ip, method: "POST", path: "/v1/admit", body: fmt.Sprintf(`{"subject":{"ip":%q}}`, ip), want: want, says: says}
	}
	for _, ip := range []string{
		"203.0.113.7", "::ffff:203.0.113.7", "::FFFF:203.0.113.7", "::ffff:cb00:7107", "64:ff9b::cb00:7107", "2001:db8::2", "2001:0DB8:0:0:ffff::9", "2001:db8::1%eth0",
	} {
		at.try(g, subject(ip, http.StatusOK, `"reason":"banned"`))
	}
	for _, ip := range []string{"::ffff:203.0.113.8", "2001:db8:0:1::1"} {
		at.try(g, subject(ip, http.StatusOK, `"admitted":true`))
	}
	for _, ip := range []string{
		"203.0.113.07", "203.0.113.7:80", "203.0.113.7/32", "0xcb007107", "3405803783", " 203.0.113.7", "203.0.113", "[2001:db8::1]", "２03.0.113.7", "", "0",
	} {
		at.try(g, subject(ip, http.StatusUnprocessableEntity, "must be an IPv4 or IPv6 address"))
	}
	for _, tt := range []struct {
		want int
		sent []string
	}{
		{http.StatusForbidden, []string{"203.0.113.7"}},
		{http.StatusForbidden, []string{"::ffff:203.0.113.7"}},
		{http.StatusForbidden, []string{"203.0.113.7:5555"}},
		{http.StatusForbidden, []string{"[2001:db8::5]:443"}},
		{http.StatusForbidden, []string{"9.9.9.9, 203.0.113.7"}},
		{http.StatusForbidden, []string{"garbage, 203.0.113.7"}},
		{http.StatusForbidden, []string{"203.0.113.7, 127.0.0.1"}},
		{http.StatusForbidden, []string{"9.9.9.9", "203.0.113.7"}},
		{http.StatusOK, []string{"203.0.113.7, 9.9.9.9"}},
	} {
		a := attempt{
			name: "forwarded for " + strings.Join(tt.sent, " and "), path: "/v1/authz", want: tt.want,
			fields: []string{"X-Forwarded-Uri", "/shop", "X-Forwarded-Method", "GET"},
		}
		for _, value := range tt.sent {
			a.fields = append(a.fields, "X-Forwarded-For", value)
		}
		at.try(g, a)
	}
}

// Where a request ends is never in doubt: what is ambiguous is refused with the connection, and what stands behind it is not read as a request.
func (at *target) smuggling(g *group) {
	const (
		body  = `{"item":"shoe"}`
		order = "POST /v1/sales/spring/orders HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
		probe = "GET /livez HTTP/1.1\r\nHost: a\r\n"
		next  = "\r\nGET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
	)
	for _, tt := range []struct {
		name, request string
		want          int
	}{
		{"two lengths", order + "Content-Length: 15\r\nContent-Length: 5\r\n\r\n" + body, 400},
		{"a list of lengths", order + "Content-Length: 15, 15\r\n\r\n" + body, 400},
		{"a negative length", order + "Content-Length: -1\r\n\r\n", 400},
		{"a signed length", order + "Content-Length: +15\r\n\r\n" + body, 400},
		{"a length in hexadecimal", order + "Content-Length: 0xf\r\n\r\n" + body, 400},
		{"a space before the colon", order + "Content-Length : 15\r\n\r\n" + body, 400},
		{"another coding", order + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501},
		{"two codings", order + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 501},
		{"chunked twice", order + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501},
		{"a chunk without a length", order + "Transfer-Encoding: chunked\r\n\r\nzz\r\n" + body + "\r\n0\r\n\r\n", 422},
		{"a chunk without an end", order + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n" + body + "\r\n0\r\n\r\n", 422},
		{"no host", "GET /livez HTTP/1.1\r\n\r\n", 400},
		{"two hosts", probe + "Host: b\r\n\r\n", 400},
		{"a host with a space", "GET /livez HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
		{"NUL in a field", probe + "X-User-ID: a\x00b\r\n\r\n", 400},
		{"a line that is no field", probe + "nonsense\r\n\r\n", 400},
		{"two spaces", "GET  /livez HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"a control character in the path", "GET /li\x01vez HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"HTTP/0.9", "GET /livez\r\n\r\n", 400},
		{"HTTP/2 by name", "GET /livez HTTP/2.0\r\nHost: a\r\n\r\n", 505},
		{"an expectation", order + "Expect: 200-maybe\r\nContent-Length: 15\r\n\r\n" + body, 417},
		{"fields without end", probe + "X-A: " + strings.Repeat("a", 60_000) + "\r\n\r\n", 431},
	} {
		g.try(tt.name, func(t *testing.T) {
			c := dial(t, at.Addr("public"))
			c.say(strings.TrimSuffix(tt.request, "\r\n") + next) // a connection that was closed may not take all of it
			if got := c.statuses(); !slices.Equal(got, []int{tt.want}) {
				t.Errorf("answered %v, want %d and the end", got, tt.want)
			}
		})
	}
	for _, listener := range []string{"public", "internal"} {
		g.try("a length and chunks, "+listener, func(t *testing.T) {
			c := dial(t, at.Addr(listener))
			c.say("POST /v1/none HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + next)
			if got := c.statuses(); len(got) != 1 {
				t.Errorf("answered %v, want one answer and the end", got)
			}
		})
	}
}

// Only the shop's pages may read what the public listener answers, and none what the internal one does.
func (at *target) cors(g *group) {
	const allow = "Access-Control-Allow-Origin"
	order := func(origin string) attempt {
		return attempt{public: true, method: "OPTIONS", path: "/v1/sales/spring/orders", fields: []string{
			"Origin", origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "x-user-id",
		}}
	}
	for _, origin := range []string{
		"https://evil.example", "null", "http://shop.example", "https://shop.example:8443", "https://SHOP.example", "https://shop.example/", "https://xshop.example",
		"https://shop.example.evil.example", "https://evil.example,https://shop.example",
	} {
		g.try("preflight of "+origin, func(t *testing.T) {
			if a := at.send(t, order(origin)); len(a.Header[allow]) > 0 || len(a.Header["Access-Control-Allow-Credentials"]) > 0 {
				t.Errorf("%v", a.Header)
			}
		})
		g.try("read by "+origin, func(t *testing.T) {
			a := at.send(t, attempt{public: true, path: "/v1/sales/spring", fields: []string{"Origin", origin}})
			if len(a.Header[allow]) > 0 || !strings.Contains(a.Header.Get("Vary"), "Origin") {
				t.Errorf("%v", a.Header)
			}
		})
		at.try(g, attempt{
			name: "order by " + origin, public: true, method: "POST", path: "/v1/sales/spring/orders", body: `{"item":"shoe"}`,
			fields: []string{"Origin", origin, "X-User-ID", "victim", "Idempotency-Key", "a"}, want: http.StatusForbidden, says: "forbidden",
		})
	}
	g.try("what the shop's pages may do", func(t *testing.T) {
		a := at.send(t, order(shopOrigin))
		if a.Header.Get(allow) != shopOrigin || a.Header.Get("Access-Control-Allow-Methods") != "GET,POST,DELETE" || strings.Contains(a.Header.Get("Access-Control-Allow-Headers"), "User") ||
			a.Header.Get("Access-Control-Allow-Credentials") != "true" {
			t.Errorf("%v", a.Header)
		}
	})
	for _, method := range []string{"GET", "OPTIONS"} {
		g.try("the internal listener, "+method, func(t *testing.T) {
			a := at.send(t, attempt{method: method, path: "/v1/rules", fields: []string{"Origin", shopOrigin, "Access-Control-Request-Method", "PUT"}})
			if len(a.Header[allow]) > 0 {
				t.Errorf("%v", a.Header)
			}
		})
	}
}
