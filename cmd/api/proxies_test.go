package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

func TestProxiesEverywhereStopTheStart(t *testing.T) {
	for _, networks := range []string{"0.0.0.0/0", "::/0", "::ffff:0:0/96", "127.0.0.1,198.51.100.7/0"} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // it would run on
		err := run(ctx, append(arguments(t.TempDir()), "-trusted-proxies", networks), nothing, io.Discard, io.Discard)
		cancel()
		if err == nil || !strings.Contains(err.Error(), "TRUSTED_PROXIES must be ") || !strings.Contains(err.Error(), "every address") {
			t.Errorf("%s: %v", networks, err)
		}
	}
	for networks, warned := range map[string]bool{"64.0.0.0/7": true, "2000::/3": true, "10.0.0.0/8,fc00::/7": false} {
		p := startWith(t, map[string]string{"TRUSTED_PROXIES": networks})
		if got := strings.Contains(p.Output(), "TRUSTED_PROXIES contains very large networks"); got != warned {
			t.Errorf("%s: warned %v, want %v", networks, got, warned)
		}
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// A proxy on this machine that is not listed as trusted forwards what its clients sent, including X-User-ID.
func TestWhoNamesUsers(t *testing.T) {
	for proxies, listed := range map[string]bool{"": false, "10.0.0.0/8": false, "127.0.0.1": true, "::ffff:127.0.0.0/104": true} {
		p := startWith(t, map[string]string{"TRUSTED_PROXIES": proxies})
		putOnSale(t, p, "concert", 9)
		order := func(user string, fields ...string) servetest.Answer {
			return servetest.Call("POST", p.URL("public")+"/v1/sales/concert/orders", `{"item":"ticket"}`, append(fields, "X-User-ID", user)...)
		}
		if a := order("ann"); a.Status != http.StatusAccepted {
			t.Errorf("proxies %q, a program of this machine: %v", proxies, a)
		}
		for i, field := range []string{"X-Forwarded-For", "Forwarded", "Via"} {
			want := http.StatusUnauthorized
			if listed {
				want = http.StatusAccepted
			}
			value := []string{"203.0.113.7", "for=203.0.113.7", "1.1 proxy"}[i]
			if a := order("bob-"+field, field, value); a.Status != want {
				t.Errorf("proxies %q, with %s: %v, want %d", proxies, field, a, want)
			}
			if a := order("eve-"+field, field, ""); a.Status != want {
				t.Errorf("proxies %q, with an empty %s: %v, want %d", proxies, field, a, want)
			}
		}
	}
}

// Paths that servers read in different ways come past no rule, and no gateway.
func TestPathsAtAuthz(t *testing.T) {
	rules := writeFile(t, "rules.yaml", `
version: 1
rules:
  - {name: no-admin, match: {route: "/admin/**"}, algorithm: direct, action: deny}
`)
	p := startWith(t, map[string]string{"RULES_FILE": rules})
	for uri, want := range map[string]int{
		"/admin/x": 403, "/%61dmin/x": 403, "/x/../admin/x": 403, "//admin//x": 403,
		`/x\..\admin/x`: 422, "/x%5c..%5cadmin/x": 422, "/admin%00/x": 422, "/x%0a": 422, "/x%7f": 422, "/x%09": 422, "/x%C2%80": 422,
		"/%2561dmin/x": 200, "/admin%20/x": 200, "/x%255cy": 200, "/caf%C3%A9": 200, // decoded once; a blank is a character like others
	} {
		for name, fields := range map[string][]string{
			"nginx": {"X-Original-URI", uri, "X-Original-Method", "GET"}, "Caddy": {"X-Forwarded-Uri", uri, "X-Forwarded-Method", "GET"},
		} {
			a := servetest.Call("GET", p.URL("internal")+"/v1/authz", "", fields...)
			if a.Status != want || want == 422 && !bytes.Contains(a.Body, []byte("backslash or a control character")) {
				t.Errorf("%s, %s: %v, want %d", name, uri, a, want)
			}
		}
		if strings.Contains(uri, "..") { // which Go's client would take out
			continue
		}
		if a := servetest.Call("GET", p.URL("internal")+"/v1/authz"+uri, ""); a.Status != want {
			t.Errorf("Envoy, %s: %v, want %d", uri, a, want)
		}
	}
}
