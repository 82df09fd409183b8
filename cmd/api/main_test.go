package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/tidegate/tidegate/internal/embedded"
	"github.com/tidegate/tidegate/internal/serve"
	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.AtOnce(16) // attackers that send nothing wait for a timeout
	goleak.VerifyTestMain(m)
}

func nothing(string) string { return "" }

// start runs the program without any configuration, on free ports.
func start(t *testing.T, folder string, stdout io.Writer, more ...string) *servetest.Program {
	t.Helper()
	return servetest.Start(t, func(ctx context.Context, stderr io.Writer) error {
		return run(ctx, append(arguments(folder), more...), nothing, stdout, stderr)
	})
}

func arguments(folder string) []string {
	return []string{"-listen", "127.0.0.1:0", "-internal-listen", "127.0.0.1:0", "-tidegate-data", folder, "-log-format", "json"}
}

type order struct {
	OrderID string `json:"order_id"`
	Status  string `json:"status"`
	Units   []int  `json:"units"`
}

// putOnSale opens a sale of so many tickets, one for each buyer.
func putOnSale(t *testing.T, p *servetest.Program, sale string, stock int) {
	t.Helper()
	servetest.OpenSale(t, p.URL("internal"), sale, servetest.Sale("ticket", stock))
}

func place(p *servetest.Program, sale, user string) servetest.Answer {
	return servetest.Call("POST", p.URL("public")+"/v1/sales/"+sale+"/orders", `{"item":"ticket"}`, "X-User-ID", user)
}

// look waits until an order is no longer only accepted.
func look(t *testing.T, p *servetest.Program, id, user string) order {
	t.Helper()
	var o order
	servetest.Until(t, http.StatusOK, func() servetest.Answer {
		a := servetest.Call("GET", p.URL("public")+"/v1/orders/"+id+"?wait_ms=5000&while=accepted", "", "X-User-ID", user)
		if a.Status == http.StatusOK {
			if a.Into(t, &o); o.Status == "accepted" {
				a.Status = 0
			}
		}
		return a
	})
	return o
}

func TestEmbeddedServerSellsAndRemembers(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	p := start(t, folder, io.Discard)
	putOnSale(t, p, "concert", 3)

	units := map[int]string{}
	sell := func(user string) {
		t.Helper()
		a := place(p, "concert", user)
		if a.Status != http.StatusAccepted {
			t.Fatal(a)
		}
		var o order
		a.Into(t, &o)
		o = look(t, p, o.OrderID, user)
		if o.Status != "confirmed" || len(o.Units) != 1 {
			t.Fatalf("%+v", o)
		}
		if other, taken := units[o.Units[0]]; taken {
			t.Fatalf("unit %d is %s's and %s's", o.Units[0], other, user)
		}
		units[o.Units[0]] = user
	}
	sell("alice")
	sell("bob")
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}

	p = start(t, folder, io.Discard)
	servetest.AwaitOpen(t, p.URL("internal"), "concert")
	again := place(p, "concert", "alice")
	var o order
	again.Into(t, &o)
	if again.Status != http.StatusAccepted || again.Header.Get("Idempotency-Replayed") != "true" || o.Status != "confirmed" {
		t.Errorf("alice's order after the restart: %v", again)
	}
	sell("carol")
	if a := place(p, "concert", "dave"); a.Status != http.StatusConflict || !bytes.Contains(a.Body, []byte("sold_out")) {
		t.Errorf("a fourth of three: %v", a)
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
}

// Redis is empty after every start, so that the sales are rebuilt: one line for each, and no warning.
func TestARestartLogsALineForEachSale(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	p := start(t, folder, io.Discard)
	sales := []string{"one", "two", "three"}
	for _, sale := range sales {
		putOnSale(t, p, sale, 3)
		for i := range 3 {
			var o order
			place(p, sale, fmt.Sprint("buyer-", i)).Into(t, &o)
			look(t, p, o.OrderID, fmt.Sprint("buyer-", i))
		}
	}
	if a := servetest.Call("PUT", p.URL("internal")+"/v1/semaphores/render", `{"limit":3}`); a.Status != http.StatusOK {
		t.Fatal(a)
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}

	var log lines
	p = servetest.Start(t, func(ctx context.Context, stderr io.Writer) error {
		return run(ctx, arguments(folder), nothing, io.Discard, io.MultiWriter(&log, stderr))
	})
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", p.URL("internal")+"/readyz", "") })
	for _, sale := range sales {
		servetest.AwaitOpen(t, p.URL("internal"), sale)
	}
	servetest.Until(t, http.StatusOK, func() servetest.Answer { // the definitions are compared
		a := servetest.Call("GET", p.URL("internal")+"/v1/semaphores/render", "")
		if !bytes.Contains(a.Body, []byte(`"limit":3`)) {
			a.Status = 0
		}
		return a
	})
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(log.String()) {
		if !strings.Contains(line, `"level":"INFO"`) {
			t.Errorf("%s", line)
		}
	}
	for _, sale := range append(sales, "demo") {
		if n := strings.Count(log.String(), `"msg":"a sale was rebuilt from the database","sale":"`+sale+`"`); n != 1 {
			t.Errorf("%d lines of %s:\n%s", n, sale, log.String())
		}
	}
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func TestStoppingLosesNothingAccepted(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	p := start(t, folder, io.Discard)
	const buyers = 300
	putOnSale(t, p, "rush", buyers)

	accepted := make([]string, buyers)
	var crowd sync.WaitGroup
	enough, over := make(chan struct{}, buyers), make(chan struct{})
	for i := range buyers {
		crowd.Go(func() {
			a := place(p, "rush", fmt.Sprint("buyer-", i))
			for a.Status == http.StatusServiceUnavailable && !closed(over) { // the machine is busy
				a = place(p, "rush", fmt.Sprint("buyer-", i))
			}
			if a.Status == http.StatusAccepted {
				var o order
				a.Into(t, &o)
				accepted[i] = o.OrderID
				enough <- struct{}{}
			}
		})
	}
	for range buyers / 3 {
		<-enough
	}
	err := p.Stop()
	close(over)
	if err != nil {
		t.Fatal(err)
	}
	crowd.Wait()

	p = start(t, folder, io.Discard)
	servetest.AwaitOpen(t, p.URL("internal"), "rush")
	count := 0
	for i, id := range accepted {
		if id == "" {
			continue
		}
		count++
		if o := look(t, p, id, fmt.Sprint("buyer-", i)); o.Status != "confirmed" {
			t.Errorf("buyer %d was told 202, and the order is %+v", i, o)
		}
	}
	t.Logf("%d of %d orders were accepted before the stop", count, buyers)
	if count < buyers/3 {
		t.Errorf("only %d orders were accepted", count)
	}
}

func TestOneProcessPerFolder(t *testing.T) {
	folder := t.TempDir()
	p := start(t, folder, io.Discard)
	p.Addr("public")
	err := start(t, folder, io.Discard).Refused()
	if !errors.Is(err, embedded.ErrInUse) || !strings.Contains(err.Error(), folder) {
		t.Fatal(err)
	}
}

func TestWhatIsPrintedWorks(t *testing.T) {
	var stdout lines
	p := start(t, t.TempDir(), &stdout)
	servetest.Until(t, http.StatusOK, func() servetest.Answer {
		if !strings.Contains(stdout.String(), "curl") {
			return servetest.Answer{}
		}
		return servetest.Answer{Status: http.StatusOK}
	})
	for _, want := range []string{p.URL("public") + "/docs", p.URL("internal") + "/docs", "live page  " + p.URL("internal") + "/\n", "Orders in flight may be lost"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("%q is not in:\n%s", want, &stdout)
		}
	}
	curl := regexp.MustCompile(`curl -i (\S+) -H '(\S+): (\S+)' -H '(\S+): (\S+)' -d '(.*)'`).FindStringSubmatch(stdout.String())
	if curl == nil {
		t.Fatalf("no curl line in:\n%s", &stdout)
	}
	if a := servetest.Call("POST", curl[1], curl[6], curl[2:6]...); a.Status != http.StatusAccepted {
		t.Errorf("%s: %v", curl[0], a)
	}
}

// TestIdentityPage: the banner of a server with IDENTITY=jwt shows an order with a token, and docs/identity.md how to make one.
func TestIdentityPage(t *testing.T) {
	secret, folder := rand.Text()+rand.Text(), t.TempDir()
	var stdout lines
	vars := map[string]string{"IDENTITY": "jwt", "JWT_SECRET": secret}
	p := servetest.Start(t, func(ctx context.Context, stderr io.Writer) error {
		return run(ctx, arguments(folder), func(name string) string { return vars[name] }, &stdout, stderr)
	})
	servetest.Until(t, http.StatusOK, func() servetest.Answer {
		if !strings.Contains(stdout.String(), "docs/identity.md") {
			return servetest.Answer{}
		}
		return servetest.Answer{Status: http.StatusOK}
	})
	page, err := os.ReadFile("../../docs/identity.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```sh\n")
	script, _, _ := strings.Cut(blocks[len(blocks)-1], "```")
	const at = "http://127.0.0.1:8080"
	if !strings.Contains(script, at) {
		t.Fatalf("no curl in\n%s", script)
	}
	makes, _, _ := strings.Cut(script, "\n\n")
	order := regexp.MustCompile(`(?m)^  curl .*$`).FindString(stdout.String())
	for name, script := range map[string]string{"the page": strings.ReplaceAll(script, at, p.URL("public")), "the banner": makes + "\n" + order} {
		if out := servetest.Bash(t, "JWT_SECRET="+secret+"\n"+script); !strings.Contains(out, "202 Accepted") || strings.Contains(script, "X-User-ID") {
			t.Errorf("%s:\n%s\n%s", name, script, out)
		}
	}
	if strings.Contains(stdout.String()+p.Output(), secret) {
		t.Error("the secret is shown")
	}
}

// lines is a buffer for two goroutines.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestAWrongStartSaysWhatIsRight(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("version: 1\nrules:\n  - name: Not A Name\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string // beside the usual ones
		want string
	}{
		{[]string{"-listen", "8080"}, "LISTEN must be"},
		{[]string{"-redis-url", "redis://127.0.0.1:1"}, "DATABASE_URL is required with REDIS_URL"},
		{[]string{"-rules-file", rules}, "RULES_FILE: "},
		{[]string{"-tidegate-data", os.Args[0]}, "TIDEGATE_DATA must be"},
	} {
		if err := start(t, t.TempDir(), io.Discard, tt.args...).Refused(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %q", tt.args, err, tt.want)
		}
	}
	if err := run(t.Context(), []string{"-h"}, nothing, io.Discard, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
}

func TestVersion(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"--version"}, nothing, &out, io.Discard); err != nil || out.String() != "api version "+serve.Build()+"\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestStoppedDuringTheStart(t *testing.T) {
	p := start(t, t.TempDir(), io.Discard)
	p.Addr("internal") // it comes before the public one
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}
