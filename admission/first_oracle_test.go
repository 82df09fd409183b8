package admission_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
)

// A queue of rules asks one after the other, which is all that "the first that refuses answers" means. It shares no code with the package.
type queue struct {
	rules []queuedRule
	used  map[[2]string]int // units, by rule and subject
}

type queuedRule struct {
	name, kind    string       // which requests it matches; empty: all
	direct        rules.Action // empty: it counts users
	limit         int
	challenge     bool
	countRejected bool
	shadow        bool
}

// A reply is what is said to a request.
type reply struct {
	Admitted bool
	Rule     string // that refuses
	Action   rules.Action
	Reason   admission.Reason
}

// ask returns the result of the first rule that refuses.
func (q *queue) ask(req admission.Request) (said reply, reached []*queuedRule, direct bool) {
	said = reply{Admitted: true, Action: allow}
	refuse := func(r *queuedRule, action rules.Action, reason admission.Reason) {
		if said.Admitted && !r.shadow {
			said = reply{false, r.name, action, reason}
		}
	}
	for i := range q.rules {
		r := &q.rules[i]
		switch {
		case r.kind != "" && r.kind != req.Device:
			continue
		case r.direct == allow && !r.shadow:
			return said, reached, false
		case r.direct == deny:
			refuse(r, deny, admission.Forbidden)
		case r.direct == challenge && !req.Solved:
			refuse(r, challenge, admission.CaptchaRequired)
		case r.direct != "":
			continue
		case req.Cost > r.limit:
			refuse(r, deny, admission.CostAboveLimit)
		case !q.full(r, req):
		case !r.challenge:
			refuse(r, deny, admission.RateLimited)
		case !req.Solved:
			refuse(r, challenge, admission.CaptchaRequired)
		}
		if r.direct != "" && !r.shadow { // and refuses
			return said, reached, true
		}
		if r.direct == "" {
			reached = append(reached, r)
		}
	}
	return said, reached, false
}

func (q *queue) full(r *queuedRule, req admission.Request) bool {
	return q.used[[2]string{r.name, req.User}]+req.Cost > r.limit
}

func (q *queue) count(r *queuedRule, req admission.Request) {
	if r.limit > 0 {
		q.used[[2]string{r.name, req.User}] += req.Cost
	}
}

// charge counts req where it is let in, and returns where.
func (q *queue) charge(req admission.Request) (said reply, counted []string) {
	said, reached, direct := q.ask(req)
	for _, r := range reached {
		switch {
		case said.Admitted && !q.full(r, req):
			q.count(r, req)
			counted = append(counted, r.name)
		case !said.Admitted && !direct && r.countRejected:
			q.count(r, req)
		}
	}
	return said, counted
}

func (q *queue) add(req admission.Request) {
	for i := range q.rules {
		if r := &q.rules[i]; r.direct == "" && (r.kind == "" || r.kind == req.Device) {
			q.count(r, req)
		}
	}
}

func (q *queue) text() string {
	var b strings.Builder
	for _, r := range q.rules {
		fmt.Fprintf(&b, "- {name: %s, shadow: %v", r.name, r.shadow)
		if r.kind != "" {
			fmt.Fprintf(&b, ", match: {device: %s}", r.kind)
		}
		if r.direct != "" {
			fmt.Fprintf(&b, ", algorithm: direct, action: %s}\n", r.direct)
			continue
		}
		onExceed := deny
		if r.challenge {
			onExceed = challenge
		}
		fmt.Fprintf(&b, ", subject: user, algorithm: fixed_window, limit: %d, window: 24h, on_exceed: %s, count_rejected: %v}\n",
			r.limit, onExceed, r.countRejected)
	}
	return b.String() + first
}

func drawQueue(rt *rapid.T, cached bool) *queue {
	q := &queue{used: map[[2]string]int{}}
	for i := range rapid.IntRange(1, 6).Draw(rt, "rules") {
		r := queuedRule{name: fmt.Sprint("r", i), shadow: rapid.IntRange(0, 4).Draw(rt, "shadow") == 0}
		r.kind = rapid.SampledFrom([]string{"", "", "phone", "desk"}).Draw(rt, "kind")
		if rapid.IntRange(0, 3).Draw(rt, "direct") == 0 {
			r.direct = rapid.SampledFrom([]rules.Action{allow, deny, challenge}).Draw(rt, "action")
		}
		r.limit = rapid.SampledFrom([]int{0, 1, 2, 3, 5, 8}).Draw(rt, "limit")
		r.challenge = rapid.IntRange(0, 2).Draw(rt, "challenge") == 0
		// What is refused from memory is counted later.
		r.countRejected = !cached && rapid.IntRange(0, 3).Draw(rt, "count rejected") == 0
		q.rules = append(q.rules, r)
	}
	return q
}

// Whatever the rules are and whatever is asked, over every store, with a cache of denials and without: the first that refuses answers,
// nothing is counted of what is refused, and everything of what is let in.
func TestTheFirstThatRefusesAnswersAtRandom(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		store := open(nil)
		rapid.Check(t, func(rt *rapid.T) {
			size := rapid.SampledFrom([]int{-1, 0}).Draw(rt, "cache")
			q := drawQueue(rt, size == 0)
			g, err := admission.NewWithStore(store, parse(t, q.text()), admission.Options{
				Secret: secret, Namespace: namespace(), Timeout: patience, DenyCache: size,
			})
			if err != nil {
				rt.Fatal(err)
			}
			for range rapid.IntRange(1, 25).Draw(rt, "steps") {
				q.step(t, rt, g)
			}
		})
	})
}

// step does one thing and compares.
func (q *queue) step(t *testing.T, rt *rapid.T, g *admission.Gate) {
	req := admission.Request{
		User:   rapid.SampledFrom([]string{"ann", "ann", "bob"}).Draw(rt, "user"),
		Device: rapid.SampledFrom([]string{"", "phone", "desk"}).Draw(rt, "device"),
		Cost:   rapid.SampledFrom([]int{1, 1, 1, 2, 4}).Draw(rt, "cost"),
		Solved: rapid.IntRange(0, 3).Draw(rt, "solved") == 0,
	}
	switch rapid.SampledFrom([]string{"charge", "charge", "charge", "check", "add", "refund", "reload"}).Draw(rt, "do") {
	case "check":
		want, _, _ := q.ask(req)
		q.compare(rt, "check", req, check(t, g, req), want)
	case "add":
		if err := g.Add(t.Context(), req); err != nil {
			rt.Fatal(err)
		}
		q.add(req)
	case "reload":
		for i := range q.rules {
			q.rules[i].limit = rapid.SampledFrom([]int{0, 1, 3, 5, 8}).Draw(rt, "limit")
		}
		setRules(t, g, parse(t, q.text()))
	case "refund":
		d := charge(t, g, req)
		want, counted := q.charge(req)
		q.compare(rt, "charge", req, d, want)
		if err := g.Refund(t.Context(), d); err != nil {
			rt.Fatal(err)
		}
		for _, rule := range counted {
			q.used[[2]string{rule, req.User}] -= req.Cost
		}
	default:
		d := charge(t, g, req)
		want, _ := q.charge(req)
		q.compare(rt, "charge", req, d, want)
	}
	want := map[string]int{}
	for _, r := range q.rules {
		if r.direct == "" {
			want[r.name] = max(0, r.limit-q.used[[2]string{r.name, req.User}])
		}
	}
	if diff := cmp.Diff(want, leftBy(t, g, req)); diff != "" {
		rt.Fatalf("after %+v (-want +got):\n%s\nrules:\n%s", req, diff, q.text())
	}
}

func (q *queue) compare(rt *rapid.T, what string, req admission.Request, d admission.Decision, want reply) {
	got := reply{d.Admitted, d.Rule, d.Action, d.Reason}
	if d.Admitted {
		got.Rule = ""
	}
	if diff := cmp.Diff(want, got); diff != "" {
		rt.Fatalf("%s of %+v (-want +got):\n%s\nrules:\n%s", what, req, diff, q.text())
	}
	// Who reads the rules in their order finds the same.
	at := slices.IndexFunc(d.Rules, func(v admission.Verdict) bool { return !v.Admitted && !v.Shadow })
	if d.Admitted != (at < 0) || at >= 0 && d.Rules[at].Rule != want.Rule {
		rt.Fatalf("%s of %+v: of %+v rule %d is the first that refuses, want %s\nrules:\n%s", what, req, d.Rules, at, want.Rule, q.text())
	}
}
