package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// A group of attacks counts its cases, for docs/security.md lists how many there are.
type group struct {
	*testing.T
	cases int
}

func (g *group) try(name string, attack func(*testing.T)) {
	g.cases++
	g.Run(name, attack)
}

// The suite of attacks, on the real program: each case is a request, or a few, and what must come of it. docs/security.md says what the groups
// are, and what they are not.
func TestAttacks(t *testing.T) {
	at := startTarget(t)
	cases := map[string]int{}
	for _, of := range []struct {
		group  string
		attack func(*group)
	}{
		{"JWT", func(g *group) { jwtsOfAFileOfKeys(g); jwtsOfASecret(g) }},
		{"CAPTCHA and login tokens", at.tokens},
		{"paths", at.paths},
		{"envelopes", at.envelopes},
		{"address spellings", at.spellings},
		{"smuggling", at.smuggling},
		{"roles and CSRF", at.rolesAndCSRF},
		{"CORS", at.cors},
		{"ban script", at.banScript},
		{"ban API", at.banAPI},
		{"permits", at.permits},
		{"login", func(g *group) { at.login(g); bansOfLogins(g) }},
		{"orders", at.orders},
		{"slow peers", at.slowPeers},
	} {
		t.Run(of.group, func(t *testing.T) {
			g := &group{T: t}
			of.attack(g)
			cases[of.group] = g.cases
		})
	}
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]int{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \| (\d+) \| `).FindAllStringSubmatch(string(page), -1) {
		listed[row[1]], _ = strconv.Atoi(row[2]) // digits
	}
	for name, n := range cases { // those that -run chose
		if listed[name] != n {
			t.Errorf("docs/security.md lists %d cases of %q, and there are %d", listed[name], name, n)
		}
		delete(listed, name)
	}
	if len(cases) == 14 && len(listed) > 0 {
		t.Errorf("docs/security.md lists %v, and nothing tries them", listed)
	}
}

// A target is a program that is set up as for a sale, with everything on.
type target struct {
	*servetest.Program
	public, internal string // URLs
	bans             string // what the program of bans.run was called with
}

const targetRules = `version: 1
lists: {staff: {values: [198.51.100.0/24, stella]}}
rules:
  - {name: guarded, match: {route: "/admin/**"}, algorithm: direct, action: deny}
  - {name: hurdle, match: {route: "/v1/sales/hurdle/orders", method: POST}, subject: caller, limit: 1, window: 1h, on_exceed: challenge}
  - {name: burst, match: {route: "/v1/sales/burst/orders", method: POST}, subject: user, limit: 1, window: 1h, on_exceed: {action: ban, after: 3, within: 1m, for: 10m}}
bans: {allow: staff, run: [%q, %q]}
semaphores: {report: {limit: 1, lease: 60s}, other: {limit: 1, lease: 60s}}
`

const (
	operatorToken = "token-of-an-operator"
	serviceToken  = "token-of-a-service"
	viewerToken   = "token-of-a-viewer"
	scraperToken  = "token-of-a-scraper"
	noToken       = "-"
	shopOrigin    = "https://shop.example"
)

func startTarget(t *testing.T) *target {
	t.Helper()
	dir := t.TempDir()
	at := &target{bans: filepath.Join(dir, "bans")}
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"$@\" >>\"$1\"\n"), 0o755); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	vars := map[string]string{
		"TOKENS_FILE": writeFile(t, "tokens.yaml", tokensOfAllRoles), "RULES_FILE": writeFile(t, "rules.yaml", fmt.Sprintf(targetRules, program, at.bans)),
		"TRUSTED_PROXIES": "127.0.0.1", "CORS_ORIGINS": shopOrigin, "KOALA_FILE": writeFile(t, "koala_rule.conf", koalaRules),
	}
	folder := filepath.Join(dir, "data")
	at.Program = servetest.Start(t, func(ctx context.Context, stderr io.Writer) error {
		return run(ctx, arguments(folder), func(name string) string { return vars[name] }, io.Discard, stderr)
	})
	at.public, at.internal = at.URL("public"), at.URL("internal")
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", at.internal+"/readyz", "") })
	for _, sale := range []string{"spring", "hurdle", "burst"} {
		definition := strings.Replace(servetest.Sale("shoe", 100), `"stock":100`, `"stock":100,"quota_per_buyer":9`, 1)
		servetest.OpenSale(t, at.internal, sale, definition, "X-Tidegate-Token", operatorToken)
		servetest.AwaitOpen(t, at.public, sale)
	}
	return at
}

// An attempt is a request of an attacker, and what must come of it.
type attempt struct {
	name   string
	public bool // else it goes to the internal listener, with an operator's token
	token  string
	method string // GET if empty
	path   string
	body   string   // said to be JSON, unless fields say something else
	fields []string // name, value, name, value …: each is sent, also the second one of a name
	want   int
	says   string // in the answer's body
}

func (at *target) send(t testing.TB, a attempt) servetest.Answer {
	t.Helper()
	url := at.internal + a.path
	if a.public {
		url = at.public + a.path
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, a.method, url, strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	if a.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if a.token == "" {
		a.token = operatorToken
	}
	if !a.public && a.token != noToken {
		req.Header.Set("X-Tidegate-Token", a.token)
	}
	for i := 0; i < len(a.fields); i += 2 {
		switch name, value := a.fields[i], a.fields[i+1]; name {
		case "Host":
			req.Host = value
		case "Content-Type":
			req.Header.Set(name, value)
		default:
			req.Header.Add(name, value)
		}
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return servetest.Answer{Err: err}
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	return servetest.Answer{Status: resp.StatusCode, Header: resp.Header, Body: content, Err: err}
}

// try makes a case of each attempt.
func (at *target) try(g *group, attempts ...attempt) {
	for _, a := range attempts {
		g.try(a.name, func(t *testing.T) {
			if got := at.send(t, a); got.Status != a.want || !strings.Contains(string(got.Body), a.says) {
				t.Errorf("%d %v, want %d with %q", got.Status, got, a.want, a.says)
			}
		})
	}
}

// dialled is a raw connection on which the test can send anything.
type dialled struct {
	net.Conn
	t *testing.T
}

func dial(t *testing.T, address string) *dialled {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return &dialled{conn, t}
}

// say returns whether the other end still took it.
func (d *dialled) say(text string) bool {
	_, err := io.WriteString(d, text)
	return err == nil
}

// statuses are those of all answers until the other end closes the connection.
func (d *dialled) statuses() (all []int) {
	d.t.Helper()
	for r := bufio.NewReader(d); ; {
		if _, err := r.Peek(1); err != nil {
			var late net.Error
			if errors.As(err, &late) && late.Timeout() {
				d.t.Error("the connection stays open")
			}
			return all
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			d.t.Errorf("no answer: %v", err)
			return all
		}
		_, _ = io.Copy(io.Discard, resp.Body) // what is missing shows in the next one
		resp.Body.Close()
		all = append(all, resp.StatusCode)
	}
}
