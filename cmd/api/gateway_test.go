package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

const (
	gatewayToken = "a-token-that-only-gateways-have"
	gatewayRules = `
version: 1
lists: {keys: {values: [key-of-acme, key-of-umbrella]}}
rules:
  - {name: gold, match: {plan: gold}, algorithm: direct, action: allow}
  - {name: strangers, match: {route: "/api/**", api-key: {not: {list: keys}}}, algorithm: direct, action: deny}
  - {name: partners, match: {route: "/api/**"}, subject: [api-key], limit: 2, window: 1h}
  - {name: guests, match: {route: "/shop/**", tier: anonymous}, subject: [ip], limit: 3, window: 1h}
  - {name: members, match: {route: "/members/**"}, subject: [user], limit: 2, window: 1h}
  - {name: orders, match: {route: "/orders", method: POST}, subject: [ip], limit: 1, window: 1h}
`
	refusedGuests = `"guests";r=0;t=`
)

// The recipes of docs/gateways.md, on the real gateways, with the real program behind them and a shop in front of which they stand.
func TestGateways(t *testing.T) {
	for name, start := range map[string]func(*testing.T, addresses) *gateway{"nginx": startNginx, "caddy": startCaddy} {
		t.Run(name, func(t *testing.T) {
			api := startForGateways(t, gatewayRules)
			shop := newShop(t)
			at := addresses{authz: api.Addr("internal"), shop: shop.addr}
			g := start(t, at)
			at.failOpen = true
			open := start(t, at)

			t.Run("a guest comes in until the limit", func(t *testing.T) { guests(t, g, shop) })
			t.Run("what a client claims to be has no effect", func(t *testing.T) { claims(t, g, shop) })
			t.Run("members are counted by name", func(t *testing.T) { members(t, g, shop) })
			t.Run("partners are counted by key", func(t *testing.T) { partners(t, g, shop) })
			t.Run("methods and bodies", func(t *testing.T) { orders(t, g, shop) })
			t.Run("the shop's own refusal", func(t *testing.T) { shopRefuses(t, g) })
			t.Run("a ban", func(t *testing.T) { banned(t, g, api, shop) })
			t.Run("open, with tidegate up", func(t *testing.T) { guests(t, open, shop) })

			stop := api.Stop // before the subtest, whose end must not end the program
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			t.Run("tidegate is down", func(t *testing.T) { undecided(t, g, open, shop) })
			l, err := net.Listen("tcp", at.authz) // it accepts, and says nothing
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			t.Run("tidegate hangs", func(t *testing.T) { undecided(t, g, open, shop) })
		})
	}
}

func startForGateways(t *testing.T, rules string) *servetest.Program {
	t.Helper()
	dir := t.TempDir()
	servetest.Write(t, dir, "rules.yaml", rules)
	vars := map[string]string{"RULES_FILE": filepath.Join(dir, "rules.yaml"), "INTERNAL_TOKEN": gatewayToken, "TRUSTED_PROXIES": "127.0.0.1"}
	folder := t.TempDir()
	p := servetest.Start(t, func(ctx context.Context, stderr io.Writer) error {
		return run(ctx, arguments(folder), func(name string) string { return vars[name] }, io.Discard, stderr)
	})
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", p.URL("internal")+"/readyz", "") })
	return p
}

func guests(t *testing.T, g *gateway, shop *shop) {
	from, stranger := g.client(), g.client()
	for left := 2; left >= 0; left-- {
		a := g.get(t, from, "/shop/shoes?page="+strconv.Itoa(left))
		if a.Status != http.StatusOK || string(a.Body) != "GET /shop/shoes?page="+strconv.Itoa(left) {
			t.Fatalf("%v", a)
		}
		if got := a.Header.Get("RateLimit"); !strings.HasPrefix(got, fmt.Sprintf(`"guests";r=%d;t=`, left)) {
			t.Errorf("RateLimit: %s, with %d left", got, left)
		}
		if got := a.Header.Get("RateLimit-Policy"); got != `"guests";q=3;w=3600` {
			t.Errorf("RateLimit-Policy: %s", got)
		}
	}
	asked := shop.asked()
	refuses(t, g.get(t, from, "/shop/shoes"), refusedGuests)
	if shop.asked() != asked {
		t.Error("a refused request got to the shop")
	}
	if a := g.get(t, stranger, "/shop/shoes"); a.Status != http.StatusOK {
		t.Errorf("another address: %v", a)
	}
}

// refuses checks the response for a caller above a limit.
func refuses(t *testing.T, a servetest.Answer, limit string) {
	t.Helper()
	retry, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if a.Status != http.StatusTooManyRequests || err != nil || retry < 1 || retry > 3600 {
		t.Errorf("%v, Retry-After %q", a, a.Header.Get("Retry-After"))
	}
	if got := a.Header.Get("RateLimit"); !strings.HasPrefix(got, limit) {
		t.Errorf("RateLimit: %s, want %s…", got, limit)
	}
	if a.Header.Get("RateLimit-Policy") == "" || a.Header.Get("Cache-Control") != "no-store" ||
		a.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(string(a.Body), "quota-exceeded") {
		t.Errorf("%v %v", a.Header, a)
	}
}

func claims(t *testing.T, g *gateway, shop *shop) {
	from := g.client()
	lies := []string{
		"X-Forwarded-For: 198.51.100.7", "X-User-ID: mallory", "X-User-Tier: gold", "X-Forwarded-Method: DELETE", "X-Original-Method: DELETE",
		"X-Forwarded-Uri: /elsewhere", "X-Original-URI: /elsewhere", "X-Tidegate-Token: nonsense", "Authorization: Bearer nonsense",
	}
	for range 3 {
		if a := g.get(t, from, "/shop/shoes", lies...); a.Status != http.StatusOK {
			t.Fatalf("%v", a)
		}
		h := shop.last()
		if user, tier := h.Get("X-User-ID"), h.Get("X-User-Tier"); user != "" || tier != "" {
			t.Errorf("the shop heard of user %q, tier %q", user, tier)
		}
		if got := h.Values("X-Forwarded-For"); !slices.Equal(got, []string{from}) {
			t.Errorf("the shop heard of addresses %q, not of %s", got, from)
		}
	}
	refuses(t, g.get(t, from, "/shop/shoes", lies...), refusedGuests)
	refuses(t, g.get(t, from, "/shop/shoes"), refusedGuests)
}

func members(t *testing.T, g *gateway, shop *shop) {
	for range 3 {
		if a := g.login(t, "alice", "wrong"); a.Status != http.StatusUnauthorized {
			t.Errorf("a wrong password: %v", a)
		}
	}
	for range 2 { // the wrong passwords were not charged to her, and addresses do not count
		if a := g.login(t, "alice", "opensesame"); a.Status != http.StatusOK {
			t.Errorf("alice: %v", a)
		}
		if got := shop.last().Get("X-User-ID"); got != "alice" {
			t.Errorf("the shop heard of %q", got)
		}
	}
	refuses(t, g.login(t, "alice", "opensesame"), `"members";r=0;t=`)
	if a := g.login(t, "bob", "opensesame"); a.Status != http.StatusOK {
		t.Errorf("bob: %v", a)
	}
}

// The key is an attribute that the gateway sends; what a client sends under that name has no effect.
func partners(t *testing.T, g *gateway, shop *shop) {
	const acme, umbrella = "X-Api-Key: key-of-acme", "X-Api-Key: key-of-umbrella"
	from := g.client()
	for range 2 {
		if a := g.get(t, from, "/api/stock", acme, "X-Tidegate-Attribute-Api-Key: key-of-umbrella"); a.Status != http.StatusOK {
			t.Errorf("%v", a)
		}
	}
	refuses(t, g.get(t, g.client(), "/api/stock", acme, "X-Tidegate-Attribute-Plan: gold"), `"partners";r=0;t=`)
	if a := g.get(t, from, "/api/stock", umbrella); a.Status != http.StatusOK {
		t.Errorf("another partner: %v", a)
	}
	asked := shop.asked()
	for _, h := range [][]string{nil, {"X-Api-Key: guessed"}, {"X-Tidegate-Attribute-Api-Key: key-of-umbrella"}, {"X-Api-Key;"}} {
		if a := g.get(t, from, "/api/stock", h...); a.Status != http.StatusForbidden {
			t.Errorf("%q: %v", h, a)
		}
	}
	if shop.asked() != asked {
		t.Error("a stranger got to the shop")
	}
}

func orders(t *testing.T, g *gateway, shop *shop) {
	from := g.client()
	post := func() servetest.Answer {
		return g.curl(t, from, "/orders", "--json", `{"item":"shoe"}`)
	}
	if a := post(); a.Status != http.StatusOK || string(a.Body) != `POST /orders {"item":"shoe"}` {
		t.Errorf("%v", a)
	}
	refuses(t, post(), `"orders";r=0;t=`)
	if a := g.get(t, from, "/orders"); a.Status != http.StatusOK || a.Header.Get("RateLimit") != "" {
		t.Errorf("no rule counts it: %v, %s", a, a.Header.Get("RateLimit"))
	}
	if got := shop.last().Get("Cookie"); got != "" {
		t.Errorf("Cookie: %s", got)
	}
}

func shopRefuses(t *testing.T, g *gateway) {
	if a := g.get(t, g.client(), "/forbidden"); a.Status != http.StatusForbidden || string(a.Body) != "the shop says no" {
		t.Errorf("%v", a)
	}
}

// A user, since this machine's own addresses are never banned.
func banned(t *testing.T, g *gateway, api *servetest.Program, shop *shop) {
	a := servetest.Call("PUT", api.URL("internal")+"/v1/bans/user/carol", `{"for_ms":60000,"reason":"scraper"}`, "X-Tidegate-Token", gatewayToken)
	if a.Status != http.StatusOK {
		t.Fatalf("%v", a)
	}
	asked := shop.asked()
	a = g.login(t, "carol", "opensesame")
	retry, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if a.Status != http.StatusForbidden || err != nil || retry < 1 || retry > 60 || shop.asked() != asked {
		t.Errorf("%v, Retry-After %q", a, a.Header.Get("Retry-After"))
	}
	if a := g.login(t, "dave", "opensesame"); a.Status != http.StatusOK {
		t.Errorf("dave: %v", a)
	}
}

func undecided(t *testing.T, g, open *gateway, shop *shop) {
	asked := shop.asked()
	if a := g.get(t, g.client(), "/shop/shoes"); a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") != "1" {
		t.Errorf("%v", a)
	}
	if shop.asked() != asked {
		t.Error("the shop was asked though nobody decided")
	}
	if a := open.get(t, open.client(), "/shop/shoes"); a.Status != http.StatusOK || shop.asked() != asked+1 {
		t.Errorf("open: %v", a)
	}
}
