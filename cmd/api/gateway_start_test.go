package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
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

// recipes returns the blocks of a language in docs/gateways.md.
func recipes(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "gateways.md"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllSubmatch(text, -1) {
		out = append(out, string(m[1]))
	}
	return out
}

// replace replaces each of old, new … wherever it stands, and it must stand somewhere.
func replace(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("the recipe has no %q", pairs[i])
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}

func startNginx(t *testing.T, at addresses) *gateway {
	blocks := recipes(t, "nginx")
	if len(blocks) != 2 {
		t.Fatalf("%d blocks, want the recipe and what fails open", len(blocks))
	}
	recipe, addr, dir := blocks[0], freeAddr(t), t.TempDir()
	if at.failOpen {
		recipe = replace(t, recipe, "        # to fail open: here\n", blocks[1])
	}
	recipe = replace(t, recipe, "listen 8000", "listen "+addr, "127.0.0.1:8081", at.authz, "127.0.0.1:9000", at.shop, "the-token", gatewayToken)
	write(t, dir, "recipe.conf", recipe)
	write(t, dir, "members.htpasswd", strings.Join(memberNames, ":{PLAIN}opensesame\n")+":{PLAIN}opensesame\n")
	write(t, dir, "nginx.conf", `
daemon off; master_process off; pid nginx.pid; error_log stderr error;
events {}
http {
	access_log off;
	client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
	include recipe.conf;
}
`)
	return serving(t, addr, dir, "nginx", "-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-e", "stderr")
}

func startCaddy(t *testing.T, at addresses) *gateway {
	blocks := recipes(t, "caddyfile")
	if len(blocks) != 3 {
		t.Fatalf("%d blocks, want the recipe and two to fail open", len(blocks))
	}
	recipe, addr, dir := blocks[0], freeAddr(t), t.TempDir()
	if at.failOpen {
		recipe = replace(t, recipe, "\t\treverse_proxy 127.0.0.1:8081 {\n", blocks[1]) + blocks[2]
		recipe = replace(t, recipe, "127.0.0.1:8099", freeAddr(t))
	}
	recipe = replace(t, recipe, "http://:8000", "http://"+addr, "127.0.0.1:8081", at.authz, "127.0.0.1:9000", at.shop, "the-token", gatewayToken)
	write(t, dir, "Caddyfile", "{\n\tadmin off\n}\n"+recipe)
	// "opensesame", at the lowest cost.
	const hash = "JDJhJDA0JGJ2Q0E2T1QxaGlhcnVQVm1ZdThXTnUvTG1UQlJVLmRITE4wb1VGLjJudG55RDZwazJGMzIy"
	write(t, dir, "members.caddy", strings.Join(memberNames, " "+hash+"\n")+" "+hash+"\n")
	return serving(t, addr, dir, "caddy", "run", "--adapter", "caddyfile", "--config", filepath.Join(dir, "Caddyfile"))
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// serving starts a gateway's program and waits until it listens.
func serving(t *testing.T, addr, dir, program string, args ...string) *gateway {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		path = "/usr/sbin/" + program // where Debian keeps nginx, outside a user's PATH
	}
	var log bytes.Buffer
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &log, &log
	cmd.Env = []string{"HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "XDG_DATA_HOME=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; make setup installs it", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // killed
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("%s:\n%s", program, log.Bytes())
		}
	})
	servetest.Until(t, http.StatusOK, func() servetest.Answer {
		select {
		case <-ended:
			t.Fatalf("%s ended:\n%s", program, log.Bytes())
		default:
		}
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return servetest.Answer{Err: err}
		}
		_ = conn.Close()
		return servetest.Answer{Status: http.StatusOK}
	})
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
