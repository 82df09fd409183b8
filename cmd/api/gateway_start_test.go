package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

// A gateway runs with a recipe of docs/gateways.md.
type gateway struct{ addr string }

// addresses are what a recipe's are replaced by.
type addresses struct {
	authz, shop string
	failOpen    bool
}

// memberNames can log in, all with the password opensesame.
var memberNames = []string{"alice", "bob", "carol", "dave"}

// clients counts the addresses that have been used as a client's; all of 127.0.0.0/8 is this machine.
var clients = 1

// client returns an address that has not called yet.
func (g *gateway) client() string {
	clients++
	return fmt.Sprintf("127.0.%d.%d", clients/200, 1+clients%200)
}

func (g *gateway) get(t *testing.T, from, path string, headers ...string) servetest.Answer {
	t.Helper()
	args := make([]string, 0, 2*len(headers))
	for _, h := range headers {
		args = append(args, "--header", h)
	}
	return g.curl(t, from, path, args...)
}

// login calls as a member, from a new address.
func (g *gateway) login(t *testing.T, user, password string) servetest.Answer {
	t.Helper()
	return g.curl(t, g.client(), "/members/area", "--user", user+":"+password)
}

// curl calls the gateway from an address, and logs the response.
func (g *gateway) curl(t *testing.T, from, path string, args ...string) servetest.Answer {
	t.Helper()
	args = append(args, "http://"+g.addr+path)
	cmd := exec.CommandContext(t.Context(), "curl", append([]string{"--silent", "--include", "--max-time", "60", "--interface", from}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	t.Logf("client %s: curl -i %s\n%s", from, strings.Join(args, " "), out)
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(out)), nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return servetest.Answer{Status: resp.StatusCode, Header: resp.Header, Body: body, Err: err}
}

func startNginx(t *testing.T, at addresses) *gateway {
	blocks := servetest.Recipes(t, "gateways.md", "nginx")
	if len(blocks) != 2 {
		t.Fatalf("%d blocks, want the recipe and what fails open", len(blocks))
	}
	recipe, addr, dir := blocks[0], testenv.FreeAddr(), t.TempDir()
	if at.failOpen {
		recipe = servetest.Replace(t, recipe, "        # to fail open: here\n", blocks[1])
	}
	recipe = servetest.Replace(t, recipe, "listen 8000", "listen "+addr, "127.0.0.1:8081", at.authz, "127.0.0.1:9000", at.shop, "demo-only-gateway-token", gatewayToken)
	servetest.Write(t, dir, "recipe.conf", recipe)
	servetest.Write(t, dir, "members.htpasswd", strings.Join(memberNames, ":{PLAIN}opensesame\n")+":{PLAIN}opensesame\n")
	servetest.Nginx(t, addr, dir)
	return &gateway{addr: addr}
}

func startCaddy(t *testing.T, at addresses) *gateway {
	blocks := servetest.Recipes(t, "gateways.md", "caddyfile")
	if len(blocks) != 3 {
		t.Fatalf("%d blocks, want the recipe and two to fail open", len(blocks))
	}
	recipe, addr, dir := blocks[0], testenv.FreeAddr(), t.TempDir()
	if at.failOpen {
		recipe = servetest.Replace(t, recipe, "\t\treverse_proxy 127.0.0.1:8081 {\n", blocks[1]) + blocks[2]
		recipe = servetest.Replace(t, recipe, "127.0.0.1:8099", testenv.FreeAddr())
	}
	recipe = servetest.Replace(t, recipe, "http://:8000", "http://"+addr, "127.0.0.1:8081", at.authz, "127.0.0.1:9000", at.shop, "demo-only-gateway-token", gatewayToken)
	// "opensesame", at the lowest cost.
	const hash = "JDJhJDA0JGJ2Q0E2T1QxaGlhcnVQVm1ZdThXTnUvTG1UQlJVLmRITE4wb1VGLjJudG55RDZwazJGMzIy"
	servetest.Write(t, dir, "members.caddy", strings.Join(memberNames, " "+hash+"\n")+" "+hash+"\n")
	servetest.Caddy(t, addr, dir, recipe)
	return &gateway{addr: addr}
}

// A shop answers with what it was asked.
type shop struct {
	addr string
	mu   sync.Mutex
	seen []http.Header // guarded by mu
}

func newShop(t *testing.T) *shop {
	s := &shop{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r.Header)
		s.mu.Unlock()
		if r.URL.Path == "/forbidden" {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, "the shop says no")
			return
		}
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, strings.TrimSpace(r.Method+" "+r.RequestURI+" "+string(body)))
	}))
	t.Cleanup(server.Close)
	s.addr = server.Listener.Addr().String()
	return s
}

func (s *shop) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen)
}

// last returns the header of the latest request.
func (s *shop) last() http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[len(s.seen)-1]
}
