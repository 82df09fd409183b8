package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// A holder repeats an order that still has to be paid, so that every answer may differ from the one before.
type holder struct {
	t      *testing.T
	p      *servetest.Program
	fields []string
}

// putOnHold opens a sale whose orders wait for their payment.
func putOnHold(t *testing.T, p *servetest.Program, sale, more string) {
	t.Helper()
	definition := strings.NewReplacer(`"hold_ms":0`, `"hold_ms":900000`, "{\"starts", "{"+more+"\"starts").Replace(servetest.Sale("shoe", 50))
	servetest.OpenSale(t, p.URL("internal"), sale, definition)
}

// order sends an order until its outcome is known: on a busy machine it may be 503.
func (h holder) order(key string, fields ...string) servetest.Answer {
	for {
		a := servetest.Call("POST", h.p.URL("public")+"/v1/sales/spring/orders", `{"item":"shoe"}`,
			append(append(fields[:len(fields):len(fields)], "Idempotency-Key", key), h.fields...)...)
		if a.Status != http.StatusServiceUnavailable {
			return a
		}
	}
}

// repeats sends the order n times at once. Each answer has to be the order, and free.
func (h holder) repeats(n int, key string, fields ...string) {
	h.t.Helper()
	answers := make([]servetest.Answer, n)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			answers[i] = h.order(key, fields...)
		})
	}
	all.Wait()
	refused := map[string]int{}
	for _, a := range answers {
		if a.Status != http.StatusAccepted || a.Header.Get("Idempotency-Replayed") != "true" || a.Header.Get("RateLimit") != "" {
			refused[fmt.Sprintf("%v, RateLimit %q", a, a.Header.Get("RateLimit"))]++
		}
	}
	for a, n := range refused {
		h.t.Errorf("%d of %d repeats: %s", n, len(answers), a)
	}
}

func writeRules(t *testing.T, rules string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Under the rules of the README, which ban whoever goes on after a refusal, a holder may repeat an order as often as he likes: in the process
// that accepted it, in one that has only Redis to ask, over his limits and while he is banned.
func TestRepeatsComeBeforeEveryRefusal(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rules, _ := strings.Cut(string(readme), "```yaml\n")
	rules, _, _ = strings.Cut(rules, "```\n")
	if !strings.Contains(rules, "order-burst") || !strings.Contains(rules, "action: ban, after: 30") {
		t.Fatalf("these are not the README's rules: %s", rules)
	}
	file, data := writeRules(t, rules), filepath.Join(t.TempDir(), "data")
	p := start(t, data, io.Discard, "-rules-file", file)
	putOnHold(t, p, "spring", "")
	ann := holder{t, p, []string{"X-User-ID", "ann"}}
	var o order
	a := ann.order("k")
	if a.Into(t, &o); a.Status != http.StatusAccepted {
		t.Fatal(a)
	}
	look(t, p, o.OrderID, "ann")
	counted := func(p *servetest.Program, user string) int {
		t.Helper()
		var explained struct {
			Rules []struct {
				Rule    string
				Windows []struct{ Limit, Remaining int }
			}
		}
		servetest.Call("GET", p.URL("internal")+"/v1/explain?user="+user+"&method=POST&route=/v1/sales/spring/orders", "").Into(t, &explained)
		for _, r := range explained.Rules {
			if r.Rule == "order-burst" {
				return r.Windows[1].Limit - r.Windows[1].Remaining
			}
		}
		t.Fatalf("%+v", explained)
		return 0
	}
	ann.repeats(100, "k")
	if n := counted(p, "ann"); n != 1 {
		t.Errorf("%d requests are counted of one order and its repeats", n)
	}

	restart := func() {
		t.Helper()
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
		p = start(t, data, io.Discard, "-rules-file", file)
		ann.p = p
		servetest.AwaitOpen(t, p.URL("internal"), "spring")
	}
	restart() // a process that did not accept the order
	ann.repeats(100, "k")
	if n := counted(p, "ann"); n != 0 {
		t.Errorf("%d repeats are counted", n)
	}

	restart()
	for tries := 0; ; tries++ { // a busy machine may take longer than the short window; the long one ends it
		a := ann.order("another")
		if a.Status == http.StatusTooManyRequests {
			break
		}
		if a.Status != http.StatusConflict || tries > 100 {
			t.Fatal(a)
		}
	}
	ann.repeats(1, "k")
	ann.repeats(60, "k")

	restart()
	if a := servetest.Call("PUT", p.URL("internal")+"/v1/bans/user/ann", `{"for_ms":600000,"reason":"test"}`); a.Status != http.StatusOK {
		t.Fatal(a)
	}
	if a := ann.order("another"); a.Status != http.StatusForbidden {
		t.Error(a)
	}
	ann.repeats(1, "k")
	ann.repeats(60, "k")
	if a := ann.order("another"); a.Status != http.StatusForbidden {
		t.Error(a)
	}
	var bans struct{ Items []struct{ Rule string } }
	servetest.Call("GET", p.URL("internal")+"/v1/bans", "").Into(t, &bans)
	if len(bans.Items) != 1 || bans.Items[0].Rule != "" {
		t.Errorf("bans: %+v", bans)
	}
}

// Without a user the key is all that names the holder: its repeats are answered from an address that has used up its limit, where a
// wrong key is refused.
func TestRepeatsOfAnAddressOverItsLimit(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	p := start(t, data, io.Discard)
	putOnHold(t, p, "spring", `"requires_user":false,`)
	somebody := holder{t: t, p: p}
	const key = "4cf6f5ae-5e9b-4b0c-8b0a-0f6ac0a5be0e"
	var o order
	a := somebody.order(key)
	if a.Into(t, &o); a.Status != http.StatusAccepted {
		t.Fatal(a)
	}
	look(t, p, o.OrderID, "")
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	p = start(t, data, io.Discard)
	somebody.p = p
	servetest.AwaitOpen(t, p.URL("internal"), "spring")
	for i := range 10 { // as many as the built-in rules give an address
		if a := somebody.order(fmt.Sprintf("%s-%d", key, i)); a.Status != http.StatusAccepted {
			t.Fatal(a)
		}
	}
	guess := func() {
		t.Helper()
		if a := somebody.order(key + "-guess"); a.Status != http.StatusTooManyRequests {
			t.Errorf("a key that nobody has: %v", a)
		}
	}
	guess()
	somebody.repeats(1, key)
	somebody.repeats(30, key)
	guess()
}

// A repeat with the solution that its order used up is not asked for another one.
func TestRepeatsAreNotChallenged(t *testing.T) {
	rules := writeRules(t, `
version: 1
rules:
  - {name: human, match: {route: "/v1/sales/*/orders", method: POST}, algorithm: direct, action: challenge}
`)
	data := filepath.Join(t.TempDir(), "data")
	p := start(t, data, io.Discard, "-rules-file", rules)
	putOnHold(t, p, "spring", "")
	ann := holder{t, p, []string{"X-User-ID", "ann"}}
	var problem struct{ Challenge struct{ URL string } }
	a := ann.order("k")
	if a.Into(t, &problem); a.Status != http.StatusForbidden {
		t.Fatal(a)
	}
	token := servetest.Solve(t, p.URL("public")+problem.Challenge.URL)
	var o order
	a = ann.order("k", "X-Captcha", token)
	if a.Into(t, &o); a.Status != http.StatusAccepted {
		t.Fatal(a)
	}
	look(t, p, o.OrderID, "ann")
	ann.repeats(20, "k", "X-Captcha", token)
	ann.repeats(20, "k")
	if a := ann.order("another", "X-Captcha", token); a.Status != http.StatusForbidden {
		t.Errorf("another order with a used solution: %v", a)
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	p = start(t, data, io.Discard, "-rules-file", rules)
	ann.p = p
	servetest.AwaitOpen(t, p.URL("internal"), "spring")
	ann.repeats(1, "k")
	ann.repeats(20, "k")
}
