package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/internal/serve"
)

// internalFake answers as the internal API does for the calls it is given, and notes them.
func internalFake(t *testing.T, answers map[string]string) (getenv func(string) string, asked *[]string) {
	t.Helper()
	asked = new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		what := r.Method + " " + r.URL.RequestURI()
		body, _ := io.ReadAll(r.Body)
		*asked = append(*asked, strings.TrimSpace(what+" "+string(body)))
		answer, ok := answers[what]
		if !ok || r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"title":"There is no such order"}`
		} else if strings.HasPrefix(answer, `{"title"`) {
			w.WriteHeader(http.StatusConflict)
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	return func(name string) string {
		return map[string]string{"TIDEGATE_TOKEN": "secret", "TIDEGATE_INTERNAL_URL": server.URL}[name]
	}, asked
}

// at is the environment of a server without tokens.
func at(url string) func(string) string {
	return func(name string) string { return map[string]string{"TIDEGATE_INTERNAL_URL": url}[name] }
}

// answering is a server that gives every call the same answer.
func answering(t *testing.T, status int, body string) (getenv func(string) string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return at(server.URL)
}

// Every error says what to do.
func TestErrorsSayWhatToDo(t *testing.T) {
	const (
		wrong = `{"title":"The request is not valid","reason":"invalid","errors":[{"location":"body.for_ms","message":"must be at least 1"}]}`
		rules = `{"title":"The request is not valid","detail":"The rules in force stay those of version 1.","reason":"invalid",
			"errors":[{"location":"rules","message":"limit is missing","file":"rules.yaml","line":6,"column":13},{"location":"rules","message":"no such list"}]}`
	)
	token := func(env func(string) string) func(string) string {
		return func(name string) string {
			if name == "TIDEGATE_TOKEN" {
				return "t"
			}
			return env(name)
		}
	}
	known, _ := internalFake(t, map[string]string{
		"GET /v1/sales?limit=1000":          `{"items":[{"sale":"flash"},{"sale":"slow"}],"next_cursor":null}`,
		"GET /v1/semaphores?limit=1000":     `{"items":[],"next_cursor":null}`,
		"GET /v1/rooms?limit=1000":          `{"items":[{"room":"shoes"}],"next_cursor":null}`,
		"GET /v1/rooms/shoes":               `{}`,
		"GET /v1/bans?limit=1000":           `{"items":[{"kind":"user","value":"ann"},{"kind":"ip","value":"192.0.2.1"}],"next_cursor":null}`,
		"GET /v1/orders/dead?limit=1000":    `{"items":[{"order_id":"01"}],"next_cursor":null}`,
		"POST /v1/sales/closed/open":        `{"title":"The change contradicts the present state","detail":"sale closed is closed for good"}`,
		"DELETE /v1/semaphores/r/permits/x": "",
	})
	for _, tt := range []struct {
		env  func(string) string
		args string
		want []string
	}{
		{at("http://127.0.0.1:1"), "sales list", []string{"is the server running?", "--internal", "TIDEGATE_INTERNAL_URL"}},
		{at("http://127.0.0.1:1"), "top --once", []string{"is the server running?", "--internal"}},
		{at("127.0.0.1:8081"), "sales list", []string{"--internal", "http://127.0.0.1:8081"}},
		{at(":"), "verify x", []string{"--internal", "http://127.0.0.1:8081"}},
		{at("localhost"), "sales pause x", []string{`--internal must be a URL such as http://127.0.0.1:8081, got "localhost"`}},
		{nothing, "sales pause x --internal localhost:8081", []string{`--internal must be a URL such as http://127.0.0.1:8081, got "localhost:8081"`}},
		{func(name string) string { return map[string]string{"INTERNAL_TOKEN": "secret\n"}[name] }, "sales pause x", []string{"INTERNAL_TOKEN", "line break"}},
		{answering(t, 401, ""), "sales list", []string{"401", "set TIDEGATE_TOKEN or --token"}},
		{token(answering(t, 401, "")), "sales list", []string{"401", "does not accept the token in TIDEGATE_TOKEN"}},
		{token(answering(t, 403, "")), "orders dead --token t", []string{"403", "the token in --token must have the role operator"}},
		{answering(t, 403, ""), "orders dead", []string{"403", "http://127.0.0.1:8081"}},
		{answering(t, 401, ""), "top --json", []string{"401", "set TIDEGATE_TOKEN"}},
		{answering(t, 404, "<html>"), "audit", []string{"404", "is --internal the internal listener"}},
		{answering(t, 503, `{"title":"The service cannot decide"}`), "bans list", []string{"503 The service cannot decide", "/readyz shows what is unavailable"}},
		{answering(t, 200, "<html>"), "bans list", []string{"unexpected response"}},
		{answering(t, 200, "<html>"), "orders show 01", []string{"unexpected response"}},
		{answering(t, 422, wrong), "bans add user ann --for 1ms", []string{"422", "\nbody.for_ms: must be at least 1"}},
		{answering(t, 422, rules), "rules reload", []string{"stay those of version 1", "\nrules.yaml:6:13: limit is missing", "\nrules: no such list"}},
		{known, "sales show fash", []string{`sale "fash" does not exist; existing: flash, slow`}},
		{known, "sales stock fash a=+1", []string{`sale "fash" does not exist; existing: flash, slow`}},
		{known, "sales open fash", []string{"404", "; existing: flash, slow"}},
		{known, "sales open closed", []string{"409", "closed for good"}},
		{known, "verify fash", []string{"404", "; existing: flash, slow"}},
		{known, "bans lift ip 192.0.2.2", []string{"404", "; existing: 192.0.2.1"}},
		{known, "orders list fash", []string{"404", "; existing: flash, slow"}},
		{known, "orders replay 02", []string{"404", "; existing: 01"}},
		{known, "semaphores show r", []string{"404"}},
		{nothing, "sales show", []string{"SALE is required; usage: tidegate sales show SALE"}},
		{nothing, "bans add user", []string{"VALUE is required; usage: tidegate bans add KIND VALUE"}},
		{nothing, "orders show a b", []string{`unexpected argument "b"; usage: tidegate orders show ID`}},
		{nothing, "sales shwo", []string{`tidegate sales has no command "shwo"; did you mean show?`}},
		{nothing, "sale", []string{`tidegate has no command "sale"; did you mean sales?`}},
		{nothing, "bans frobnicate", []string{"tidegate bans --help"}},
		{nothing, "audit --nope", []string{"--nope", "tidegate audit --help"}},
		{nothing, "bans add user ann --for 1x", []string{"1x", "--for", "like 90s, 15m or 1h30m"}},
		{nothing, "semaphores set r", []string{"limit"}},
		{known, "rooms show shoe", []string{`room "shoe" does not exist; existing: shoes`}},
		{known, "rooms hold shoe", []string{"404", "; existing: shoes"}},
		{known, "rooms close shoes", []string{"Close shoes permanently?", "pass --yes"}},
		{known, "rooms put shoes", []string{"Room shoes exists.", "pass --yes"}},
		{nothing, "rooms advance shoes", []string{"TURNS is required; usage: tidegate rooms advance ROOM TURNS"}},
		{nothing, "rooms advance shoes few", []string{`TURNS must be a number, 0 or more, got "few"`}},
		{nothing, "rooms rate shoes 1.5", []string{`PER_MINUTE must be a number, 0 or more, got "1.5"`}},
		{nothing, "rooms put shoes --sale s", []string{"--sale and --item"}},
		{nothing, "rooms put shoes --starts noon", []string{"--starts", "2026-12-01T20:00:00Z"}},
		{nothing, "rooms put shoes --lane members --lane all=70", []string{"--lane must be such as all=70 or members=30:member", `got "members"`}},
		{nothing, "rooms put shoes --gather noon", []string{"--gather", "2026-12-01T19:00:00Z"}},
		{nothing, "rooms verify-draw /nowhere", []string{"/nowhere"}},
		{nothing, "rooms verify-draw client_test.go", []string{`line must begin with "room,"`}},
		{nothing, "logins show", []string{"name ip"}},
		{nothing, "logins show ann", []string{"usage: tidegate logins show --name ann"}},
		{known, "audit --limit -3", []string{"--limit must be 0 (all) or more, got -3"}},
		{nothing, "sales create s", []string{"--lasts 1h"}},
		{nothing, "sales create s --lasts 1h", []string{"--item ticket=500"}},
		{nothing, "sales create s --lasts 1h --item ticket", []string{"NAME=STOCK"}},
		{nothing, "sales create s --lasts 1h --item ticket=5:0", []string{"quota"}},
		{nothing, "sales create s --lasts 1h --item ticket=-5", []string{"NAME=STOCK"}},
		{nothing, "sales create s --ends now --item ticket=5", []string{"--ends", "2026-12-01T21:00:00Z"}},
		{nothing, "sales create s --ends x --lasts 1h", []string{"--ends or --lasts"}},
		{nothing, "sales create s --starts noon --lasts 1h", []string{"--starts", "2026-12-01T20:00:00Z"}},
		{known, "sales stock flash ticket=5", []string{"ticket=+100", "can only grow"}},
		{known, "sales close flash", []string{"Close flash permanently?", "pass --yes"}},
		{known, "semaphores release r x", []string{"Release the permit of r?", "pass --yes"}},
	} {
		out, err := call(t, tt.env, strings.Fields(tt.args)...)
		if err == nil || out != "" {
			t.Errorf("%s: %v, %q", tt.args, err, out)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no %q in: %v", tt.args, want, err)
			}
		}
	}
	if _, err := call(t, known, "sales", "open", ""); err == nil || !strings.Contains(err.Error(), "arguments must not be empty") {
		t.Errorf("%v", err)
	}
	if out, err := call(t, known, "semaphores", "release", "r", "x", "--yes"); err != nil || out != "released\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// The outcome of a change without an answer is unknown, and a command ended by a signal fails.
func TestWithoutAnAnswer(t *testing.T) {
	const (
		audit = "whether it was done is unknown: tidegate audit lists completed changes"
		where = "--internal or TIDEGATE_INTERNAL_URL sets the URL of its internal listener"
	)
	for _, tt := range []struct {
		args, end, want string
		status          int
	}{
		{"verify x", "interrupted", "interrupted", 143},
		{"sales list", "interrupted", "interrupted", 143},
		{"rules diff none.yaml", "interrupted", "interrupted", 143},
		{"rehearse --sale x --stock 1 --buyers 1 --rate 1", "interrupted", "interrupted", 143},
		{"sales pause x", "interrupted", "interrupted; " + unsure, 143},
		{"sales stock x a=+1", "interrupted", "interrupted", 143}, // while it looks what there is
		{"verify x", "late", "GET BASE/v1/sales/x/verify: no answer within 30s; BASE/readyz shows what is unavailable", 2},
		{"sales pause x", "late", "POST BASE/v1/sales/x/pause: no answer within 30s; " + audit + "; BASE/readyz shows what is unavailable", 1},
		{"sales open x", "cut", `Post "BASE/v1/sales/x/open": EOF; ` + audit + "; is the server running? " + where, 1},
		{"sales open x", "away", `Post "BASE/v1/sales/x/open": dial tcp ADDR: connect: connection refused; is the server running? ` + where, 1},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := func() {}
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			switch _, _ = io.Copy(io.Discard, r.Body); tt.end {
			case "interrupted":
				cancel(serve.Interrupted{Signal: syscall.SIGTERM})
			case "cut":
				panic(http.ErrAbortHandler)
			}
			<-r.Context().Done()
		}))
		switch tt.end {
		case "late":
			ctx, stop = context.WithTimeout(ctx, 50*time.Millisecond)
		case "away":
			server.Close()
		}
		var out output
		err := run(ctx, strings.Fields(tt.args), at(server.URL), &out, &out)
		want := strings.NewReplacer("BASE", server.URL, "ADDR", strings.TrimPrefix(server.URL, "http://")).Replace(tt.want)
		if err == nil || err.Error() != want || statusOf(err) != tt.status {
			t.Errorf("%s, %s: status %d: %v", tt.args, tt.end, statusOf(err), err)
		}
		stop()
		cancel(nil)
		server.Close()
	}
}

// statusOf is what the program would end with.
func statusOf(err error) int {
	var other interface{ ExitStatus() int }
	switch {
	case err == nil:
		return 0
	case errors.As(err, &other):
		return other.ExitStatus()
	}
	return 1
}

// A redirect would turn a change into a GET, which succeeds without changing anything.
func TestARedirectIsNoSuccess(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked = append(asked, r.Method+" "+r.URL.Path); r.URL.Path == "/v1/sales/s/pause" {
			http.Redirect(w, r, "http://"+r.Host+"/elsewhere", http.StatusMovedPermanently)
			return
		}
		_, _ = io.WriteString(w, `{"sale":"s"}`)
	}))
	defer server.Close()
	out, err := call(t, at(server.URL), "sales", "pause", "s")
	if err == nil || out != "" || len(asked) != 1 || !strings.Contains(err.Error(), "redirected to "+server.URL+"/elsewhere; use --internal "+server.URL) {
		t.Errorf("%v, %q after %q", err, out, asked)
	}
}

// Names that a buyer, a rule or a database has chosen give no orders to an operator's terminal.
func TestHostileNames(t *testing.T) {
	const (
		nasty  = "\x1b]0;owned\x07\u009b2J\u202eevil\u2066\x7f\r\n\u200b"
		asJSON = `\u001b]0;owned\u0007` + "\u009b2J\u202eevil\u2066\x7f" + `\r\n` + "\u200b"
	)
	item := strings.ReplaceAll(`{"sale":"N","state":"N","starts_at":"N","order_id":"N","reason":"N","kind":"N","value":"N","until":"N","rule":"N","name":"N",
		"source":"N","actor":"N","target":"N","outcome":"N","holders":[{"holder":"N"}],"items":[{"item":"N","stock":1,"free":1}]}`, "N", asJSON)
	answer := `{"items":[` + item + `],"next_cursor":null,"ok":true,"checks":[{"invariant":"` + asJSON + `","ok":true,"detail":"` + asJSON + `","advice":"` + asJSON + `"}],
		"ban":{"value":"` + asJSON + `"},"allowed":"` + asJSON + `","rules":[{"rule":"` + asJSON + `","why":"` + asJSON + `"}],
		"version":"` + asJSON + `",` + strings.Replace(item[1:], `"items"`, `"all"`, 1)
	frame := `{"at":"2026-11-21T12:00:00Z","window_ms":1000,"process":{"version":"N","rules":"N","degraded":["N"]},"answers":{"N":1},"rules":[{"name":"N"}],
		"latest":[{"who":"N","what":"N","answer":"N"}],"sales":{"error":"N","value":[{"sale":"N","state":"N","items":[{"item":"N","stock":1,"free":1}]}]},
		"semaphores":{"value":[{"name":"N","limit":1}]},"bans":{"value":{"count":1,"bans":[{"kind":"N","value":"N","reason":"N"}]}}}`
	frame = strings.Join(strings.Fields(strings.ReplaceAll(frame, "N", asJSON)), " ")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/events":
			_, _ = io.WriteString(w, "event: frame\ndata: "+frame+"\n\n")
		case "/v1/orders/refused":
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"title":"`+asJSON+`","detail":"`+asJSON+`","errors":[{"location":"`+asJSON+`","message":"`+asJSON+`"}]}`)
		default:
			_, _ = io.WriteString(w, answer)
		}
	}))
	defer server.Close()
	for _, args := range [][]string{
		{"sales", "list"},
		{"sales", "show", input.Harmless(nasty)},
		{"sales", "open", nasty},
		{"orders", "show", nasty},
		{"orders", "show", "refused"},
		{"orders", "dead"},
		{"orders", "list", "x"},
		{"explain", "--user", nasty},
		{"verify", "x"},
		{"bans", "list"},
		{"bans", "history"},
		{"logins", "show", "--name", nasty},
		{"logins", "history"},
		{"semaphores", "list"},
		{"semaphores", "show", "x"},
		{"rooms", "list"},
		{"rooms", "hold", nasty},
		{"rooms", "places", "x"},
		{"rooms", "verify", "x"},
		{"rules", "reload"},
		{"audit"},
		{"top", "--once"},
		{"sales", "show", nasty},
	} {
		for _, more := range [][]string{nil, {"--json"}} {
			out, err := call(t, at(server.URL), append(args, more...)...)
			if err != nil {
				out += err.Error()
			} else if !strings.Contains(out, "evil") {
				t.Errorf("%q: %q", args, out)
			}
			for _, r := range out {
				if input.Hostile(r) && r != '\n' {
					t.Errorf("%q prints %U: %q", args, r, out)
					break
				}
			}
		}
	}
	if out, err := call(t, at(server.URL), "__complete", "sales", "show", ""); err != nil || strings.Contains(out, "evil") {
		t.Errorf("%v: %q", err, out)
	}
}
