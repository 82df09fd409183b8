package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/internal/embedded"
	"github.com/tidegate/tidegate/internal/serve"
	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

func nothing(string) string { return "" }

// An output is a file to the program: the embedded server's log and the crowd's progress are written to the same one.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// call runs the program and returns what it prints.
func call(t *testing.T, getenv func(string) string, args ...string) (string, error) {
	t.Helper()
	var stdout, stderr output
	err := run(t.Context(), args, getenv, &stdout, &stderr)
	if t.Failed() || err != nil {
		t.Logf("%v: %v\n%s", args, err, &stderr)
	}
	return stdout.String(), err
}

func TestVersion(t *testing.T) {
	if out, err := call(t, nothing, "--version"); err != nil || out != "tidegate version "+serve.Build()+"\n" {
		t.Errorf("%v: %q", err, out)
	}
}

func TestDemo(t *testing.T) { // not parallel: a crowd that gets no processor loses its turns
	out, err := call(t, nothing, "demo", "--exit")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"curl -i http://127.0.0.1:", " of 300 units sold at a demand of ", "I11  captured = paid + refund ok", "OK: ", "400 visitors for 40 units", "W25  the draw can be recomputed"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
	if strings.Count(out, " hold, 0 broken, ") != 2 { // of the sale, and of the room
		t.Errorf("not both verdicts are good:\n%s", out)
	}
}

// Told to stop before its server has started, it has shown nothing, and that is no success.
func TestDemoThatIsToldToStop(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(serve.Interrupted{Signal: syscall.SIGINT})
	var out output
	if err := run(ctx, []string{"demo"}, nothing, &out, &out); statusOf(err) != 130 || err.Error() != "interrupted" {
		t.Errorf("status %d: %v", statusOf(err), err)
	}
}

func TestRehearseEmbedded(t *testing.T) {
	out, err := call(t, nothing, "rehearse", "--embedded", "--json", "--sale", "try", "--stock", "50", "--buyers", "200", "--rate", "400", "--hold", "0")
	if err != nil {
		t.Fatal(err)
	}
	var report struct{ Admitted, Confirmed int }
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Admitted != 50 || report.Confirmed != 50 {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := call(t, nothing, "rehearse", "--embedded", "--sale", "try", "--buyers", "1"); err == nil || !strings.Contains(err.Error(), "--rate") {
		t.Errorf("an incomplete plan: %v", err)
	}
}

func TestVerify(t *testing.T) {
	err := withEmbedded(t.Context(), t.TempDir(), nil, io.Discard, func(_ context.Context, at embedded.Place) error {
		there := func(name string) string {
			if name == "TIDEGATE_INTERNAL_URL" {
				return at.Internal
			}
			return ""
		}
		out, err := call(t, there, "verify", at.Sale)
		if err != nil || !strings.Contains(out, "I3") {
			t.Errorf("%v: %s", err, out)
		}
		if _, err := call(t, there, "verify", "nothing"); statusOf(err) != 2 || !strings.Contains(err.Error(), "404") {
			t.Errorf("an unknown sale: status %d: %v", statusOf(err), err)
		}
		_, err = call(t, nothing, "health", at.Public+"/readyz")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := call(t, nothing, "verify", "--internal", "http://127.0.0.1:1", "x"); statusOf(err) != 2 || !strings.Contains(err.Error(), "--internal") {
		t.Errorf("nobody there: status %d: %v", statusOf(err), err)
	}
}

func TestABrokenInvariantIsAnError(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"ok":false,"checks":[{"invariant":"I3","ok":false,"detail":"ticket: 4 of 3 sold"}]}`)
	}))
	defer server.Close()
	token := func(name string) string { return map[string]string{"TIDEGATE_TOKEN": "secret"}[name] }
	out, err := call(t, token, "verify", "--internal", server.URL, "x")
	if statusOf(err) != 1 || !strings.Contains(out, "I3   BREACH  ticket: 4 of 3 sold") {
		t.Errorf("status %d: %v: %s", statusOf(err), err, out)
	}
	if _, err := call(t, nothing, "verify", "--internal", server.URL, "x"); err == nil || !strings.Contains(err.Error(), "TIDEGATE_TOKEN") {
		t.Errorf("without the token: %v", err)
	}
	if help, err := call(t, token, "verify", "--help"); err != nil || strings.Contains(help, "secret") {
		t.Errorf("the help shows the token: %v: %s", err, help)
	}
}

// Commands that judge something end with 1 for a bad result and with 2 without a result; other commands end with 1.
func TestExitStatus(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var (
		warned = file("warned.yaml", "version: 1\nlists: {unused: {values: [x]}}\nrules: [{name: r, subject: user, match: {user: {present: true}}, limit: 1, window: 1s}]\n")
		wrong  = file("wrong.yaml", "version: 2\n")
		passed = file("passed.yaml", "cases: [{name: c, request: {user: ann}, expect: allow}]\n")
		failed = file("failed.yaml", "cases: [{name: c, request: {user: ann}, expect: deny}]\n")
		draw   = file("draw.csv", drawList)
		html   = file("draw.html", "<html>")
		away   = at("http://127.0.0.1:1")
	)
	judged, _ := internalFake(t, map[string]string{
		"GET /v1/sales/good/verify": `{"ok":true,"checks":[]}`, "GET /v1/sales/bad/verify": `{"ok":false,"checks":[]}`,
		"GET /v1/rooms/good/verify": `{"ok":true,"checks":[]}`, "GET /v1/rooms/bad/verify": `{"ok":false,"checks":[]}`,
	})
	for _, tt := range []struct {
		env  func(string) string
		args string
		want int
	}{
		{judged, "verify good", 0},
		{judged, "verify bad", 1},
		{judged, "verify bad --json", 1},
		{judged, "verify none", 2},
		{judged, "verify", 2},
		{judged, "verify good --nope", 2},
		{away, "verify good", 2},
		{answering(t, 503, ""), "verify good", 2},
		{answering(t, 200, "<html>"), "verify good", 2},
		{judged, "rooms verify good", 0},
		{judged, "rooms verify bad", 1},
		{away, "rooms verify good", 2},
		{nothing, "rooms verify-draw " + draw, 0},
		{nothing, "rooms verify-draw --root 00 " + draw, 1},
		{nothing, "rooms verify-draw --round 5 " + draw, 1},
		{nothing, "rooms verify-draw " + html, 1},
		{nothing, "rooms verify-draw /nowhere", 2},
		{nothing, "rules check " + warned, 0},
		{nothing, "rules check --strict " + warned, 1},
		{nothing, "rules check " + wrong, 1},
		{nothing, "rules check /nowhere", 2},
		{nothing, "rules test " + warned + " " + passed, 0},
		{nothing, "rules test " + warned + " " + failed, 1},
		{nothing, "rules test " + warned + " /nowhere", 2},
		{func(string) string { return "x" }, "doctor", 2},
		{away, "rehearse --sale s --stock 5 --buyers 5 --rate 5", 2},
		{away, "sales list", 1},
		{nothing, "migrate", 1},
		{nothing, "frobnicate", 1},
	} {
		if _, err := call(t, tt.env, strings.Fields(tt.args)...); statusOf(err) != tt.want {
			t.Errorf("%s: status %d, want %d: %v", tt.args, statusOf(err), tt.want, err)
		}
	}
}

// TIDEGATE_TOKEN is the token that commands send. A server requires INTERNAL_TOKEN, which is sent without the other: commands work in a
// server's container, and with a token of one's own where it is set.
func TestToken(t *testing.T) {
	const required, wrong = "the-token-that-the-server-requires", "another-token-of-legal-length"
	err := withEmbedded(t.Context(), t.TempDir(), []string{"-internal-token", required}, io.Discard, func(_ context.Context, place embedded.Place) error {
		for _, tt := range []struct {
			tidegate, internal string
			args               []string
			want               string // error; empty: none
		}{
			{required, "", nil, ""},
			{required, wrong, nil, ""},
			{"", required, nil, ""},
			{wrong, wrong, []string{"--token", required}, ""},
			{"", "", nil, "401 Authentication is required; set TIDEGATE_TOKEN or --token to an operator token"},
			{wrong, required, nil, "does not accept the token in TIDEGATE_TOKEN"},
			{"", wrong, nil, "does not accept the token in INTERNAL_TOKEN"},
			{required, required, []string{"--token", wrong}, "does not accept the token in --token"},
		} {
			env := func(name string) string {
				return map[string]string{"TIDEGATE_INTERNAL_URL": place.Internal, "TIDEGATE_TOKEN": tt.tidegate, "INTERNAL_TOKEN": tt.internal}[name]
			}
			_, err := call(t, env, append([]string{"sales", "list"}, tt.args...)...)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%+v: %v", tt, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestHealth(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer server.Close()
	if _, err := call(t, nothing, "health", server.URL); err != nil {
		t.Error(err)
	}
	status = http.StatusServiceUnavailable
	if _, err := call(t, nothing, "health", server.URL); err == nil || !strings.Contains(err.Error(), "503") {
		t.Error(err)
	}
	if _, err := call(t, nothing, "health", "http://127.0.0.1:1"); err == nil {
		t.Error("nobody is there")
	}
}

func TestRules(t *testing.T) {
	builtIn, err := call(t, nothing, "rules", "show")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(builtIn), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := call(t, nothing, "rules", "check", path); err != nil || !strings.Contains(out, "valid, version ") {
		t.Errorf("the built-in file: %v: %s", err, out)
	}
	if err := os.WriteFile(path, []byte("version: 1\nrules:\n  - name: No Name\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := call(t, nothing, "rules", "check", path); err == nil || !strings.Contains(err.Error(), path+":3:") {
		t.Errorf("a wrong file: %v", err)
	}
	if _, err := call(t, nothing, "rules", "check", path+"x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestMigrate(t *testing.T) {
	database := testenv.Postgres(t)
	env := func(name string) string { return map[string]string{"DATABASE_URL": database}[name] }
	for range 2 {
		if out, err := call(t, env, "migrate"); err != nil || !strings.Contains(out, "up to date") {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if _, err := call(t, nothing, "migrate"); err == nil || !strings.Contains(err.Error(), "DATABASE_URL is required") {
		t.Errorf("without a database: %v", err)
	}
}

// An operator's day, with the real program: what flags of one command said is not undone by another.
func TestOperate(t *testing.T) {
	err := withEmbedded(t.Context(), t.TempDir(), nil, io.Discard, func(_ context.Context, place embedded.Place) error {
		does := func(want string, args ...string) {
			t.Helper()
			if out, err := call(t, at(place.Internal), args...); err != nil || !strings.Contains(out, want) {
				t.Errorf("%v: %v, want %s\n%s", args, err, want, out)
			}
		}
		does("requires user  false", "sales", "create", "s", "--item", "a=5:3", "--item", "b=1", "--lasts", "1h", "--anonymous", "--hold", "90s")
		does("open", "sales", "open", "s")
		does("stock=12", "sales", "stock", "s", "a=+7")
		does(`"requires_user":false,"hold_ms":90000,"items":[{"item":"a","stock":12,"free":12,"quota_per_buyer":3,`, "sales", "show", "s", "--json")
		does("paused", "sales", "pause", "s")
		does("closed", "sales", "close", "s", "--yes")
		does("I3     ok", "verify", "s")
		does("x y", "bans", "add", "network", "203.0.113.0/24", "--reason", "x y")
		does("lifted", "bans", "lift", "network", "203.0.113.0/24")
		does("..", "bans", "add", "user", "..")
		does("lifted", "bans", "lift", "user", "..")
		does("3", "semaphores", "set", "report", "--limit", "3")
		does("file", "semaphores", "revert", "report")
		does("reference", "logins", "show", "--name", "ann", "--ip", "192.0.2.1")
		does("lifted", "logins", "lift", "--name", "ann")
		does("none", "orders", "dead")
		does("none", "orders", "list", place.Sale, "--user", "ann")
		placed := servetest.Call("POST", place.Public+"/v1/sales/"+place.Sale+"/orders", `{"item":"ticket"}`, "X-User-ID", "ann")
		var order struct {
			ID string `json:"order_id"`
		}
		placed.Into(t, &order)
		does(order.ID, "orders", "list", place.Sale, "--user", "ann")
		does("ticket", "orders", "show", order.ID)
		if _, err := call(t, at(place.Internal), "orders", "cancel", order.ID, "--yes"); err == nil || !strings.Contains(err.Error(), "cannot be cancelled any more") {
			t.Errorf("a sample order is final: %v", err)
		}
		does("orders              yes", "explain", "--user", "ann", "--route", "/v1/sales/x/orders", "--method", "POST", "--attribute", "plan:gold")
		does(`no: method: POST`, "explain", "--user", "ann", "--route", "/v1/sales/x/orders", "--method", "GET")
		does(`"action":"close-sale","target":"/v1/sales/s/close","detail":"","outcome":"done"`, "audit", "--json", "--limit", "20")
		does("serving", "rooms", "put", "door", "--rate", "60")
		does("held", "rooms", "hold", "door", "--reason", "the shop is slow")
		does("the shop is slow", "audit", "--json")
		does("s a", "top", "--once")
		set := filepath.Join(t.TempDir(), "rules.yaml")
		if err := os.WriteFile(set, rules.Default().Source(), 0o600); err != nil {
			return err
		}
		does("equals the rules in force", "rules", "diff", set)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
