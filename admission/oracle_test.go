package admission_test

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/store"
)

// stepsBack is how far a clock may step back from the latest time it showed: for so long every store keeps what has ended.
const stepsBack = 900 * ms

// Whatever the rules, and whatever is asked in whatever order and at whatever time, every store says what the definitions say. By
// default 100 sequences run over each store; -rapid.checks says how many.
func TestStoresAgreeWithTheDefinitions(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		var sequences, operations atomic.Int64
		rapid.Check(t, func(rt *rapid.T) {
			sequences.Add(1)
			p := newPlay(t, rt, open)
			for range rapid.IntRange(1, 40).Draw(rt, "steps") {
				p.step()
				operations.Add(1)
			}
		})
		t.Logf("%d sequences, %d operations", sequences.Load(), operations.Load())
	})
}

// A play is one sequence, put to a gate and to the model.
type play struct {
	*rapid.T
	test      *testing.T // for what is no matter of the model
	gate      *admission.Gate
	model     *model
	clk       *clock
	latest    time.Time
	steady    bool // the clock does not step back, nor does the rate of a gcra change
	decisions []admission.Decision
	charges   [][]*modelCharge // of each decision
}

// starts are times beside which calendars do something.
var starts = []time.Time{
	epoch,
	time.Date(2030, 3, 10, 6, 59, 58, 0, time.UTC), // New York puts its clocks forward
	time.Date(2030, 11, 3, 5, 59, 58, 0, time.UTC), // and back
	time.Date(2032, 2, 29, 15, 59, 58, 0, time.UTC),
}

func newPlay(t *testing.T, rt *rapid.T, open opener) *play {
	p := &play{T: rt, test: t, clk: newClock(), model: &model{tallies: map[modelKey]*modelTally{}, records: map[modelRequest]*modelRecord{}}}
	// What was charged in one slot of a cluster and refused in the next is taken back; that it was there shows when the clock steps
	// back, or by a µs when a rate changes.
	p.steady = strings.Contains(t.Name(), "cluster")
	p.latest = rapid.SampledFrom(starts).Draw(rt, "start")
	p.clk.At(p.latest.Sub(epoch))
	for i := range rapid.IntRange(1, 4).Draw(rt, "rules") {
		p.model.rules = append(p.model.rules, p.rule(fmt.Sprint("r", i)))
	}
	p.gate = gate(t, open(p.clk), namespace(), p.text())
	return p
}

// rule draws a rule that stays what it is but for its numbers.
func (p *play) rule(name string) modelRule {
	r := modelRule{name: name, zone: time.UTC}
	r.algorithm = rapid.SampledFrom([]store.Algorithm{
		store.SlidingLog, store.SlidingCounter, store.FixedWindow, store.GCRA, store.TwoStage,
	}).Draw(p.T, "algorithm")
	windows := []time.Duration{time.Second, 1500 * ms, 7 * time.Second, 90 * time.Second}
	r.window = rapid.SampledFrom(windows).Draw(p.T, "window").Microseconds()
	r.baseWindow = rapid.SampledFrom(windows).Draw(p.T, "base's window").Microseconds()
	if r.algorithm == store.FixedWindow && rapid.Bool().Draw(p.T, "calendar") {
		r.unit = rapid.SampledFrom([]string{"minute", "hour", "day", "month"}).Draw(p.T, "unit")
		name := rapid.SampledFrom([]string{"UTC", "Asia/Shanghai", "America/New_York"}).Draw(p.T, "zone")
		loc, err := time.LoadLocation(name)
		if err != nil {
			p.Fatal(err)
		}
		r.zone = loc
		r.window = map[string]time.Duration{
			"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour, "month": 30 * 24 * time.Hour,
		}[r.unit].Microseconds()
	}
	r.counts = rapid.SampledFrom([]string{"user", "caller", "[ip, device]"}).Draw(p.T, "subject")
	r.subject = subjects[r.counts]
	r.cost = rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(p.T, "rule's cost")
	p.numbers(&r)
	return r
}

// numbers draws what a reload may change without a new beginning.
func (p *play) numbers(r *modelRule) {
	limit, burst := r.limit, r.burst
	r.limit = rapid.SampledFrom([]int{0, 1, 2, 3, 4, 5, 6, 8, 11, 14, 17}).Draw(p.T, "limit")
	r.burst = rapid.IntRange(1, 14).Draw(p.T, "burst")
	if p.steady && r.algorithm == store.GCRA && burst > 0 {
		r.limit, r.burst = limit, burst
	}
	r.base = rapid.IntRange(1, 5).Draw(p.T, "base's limit")
	r.countRejected = rapid.IntRange(0, 3).Draw(p.T, "count rejected") == 0
	r.shadow = rapid.IntRange(0, 4).Draw(p.T, "shadow") == 0
	r.challenge = rapid.IntRange(0, 3).Draw(p.T, "challenge") == 0
}

// subjects of rules.
var subjects = map[string]func(admission.Request) string{
	"user":   func(r admission.Request) string { return r.User },
	"caller": func(r admission.Request) string { return cmp.Or(r.User, r.IP.String()) },
	"[ip, device]": func(r admission.Request) string {
		if r.Device == "" {
			return ""
		}
		return r.IP.String() + " " + r.Device
	},
}

// text is the rules file of the model's rules.
func (p *play) text() string {
	var b strings.Builder
	for _, r := range p.model.rules {
		fmt.Fprintf(&b, "- {name: %s, subject: %s, algorithm: %s, limit: %d, cost: %d, count_rejected: %v, shadow: %v",
			r.name, r.counts, r.algorithm, r.limit, r.cost, r.countRejected, r.shadow)
		if r.unit != "" {
			fmt.Fprintf(&b, ", window: %s, zone: %s", r.unit, r.zone)
		} else {
			fmt.Fprintf(&b, ", window: %v", micros(r.window))
		}
		switch r.algorithm {
		case store.GCRA:
			fmt.Fprintf(&b, ", burst: %d", r.burst)
		case store.TwoStage:
			fmt.Fprintf(&b, ", base: {limit: %d, window: %v}", r.base, micros(r.baseWindow))
		}
		if r.challenge {
			b.WriteString(", on_exceed: challenge")
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// step does one thing, after some time.
func (p *play) step() {
	// Quarters of a second meet the ends of windows exactly, and a µs the times beside them.
	pause := rapid.SampledFrom([]time.Duration{
		0, 0, 0, µs, 250 * ms, 250*ms - µs, 250 * ms, time.Second, time.Second, 4 * time.Second, 61 * time.Second, time.Hour,
		-1, // back
	}).Draw(p.T, "pause")
	if pause < 0 && !p.steady {
		back := time.Duration(rapid.Int64Range(0, stepsBack.Microseconds()).Draw(p.T, "back")) * µs
		p.clk.At(p.latest.Add(-back).Sub(epoch))
	} else {
		p.clk.Advance(max(0, pause))
	}
	if now := p.clk.Now(); now.After(p.latest) {
		p.latest = now
	}
	p.model.now = p.clk.Now().UnixMicro()

	req := admission.Request{
		User:   rapid.SampledFrom([]string{"ann", "ann", "ann", "bob", ""}).Draw(p.T, "user"),
		Device: rapid.SampledFrom([]string{"", "phone", "phone", "desk"}).Draw(p.T, "device"),
		IP:     netip.AddrFrom4([4]byte{192, 0, 2, rapid.ByteRange(1, 2).Draw(p.T, "ip")}),
		Cost:   rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(p.T, "cost"),
		Solved: rapid.IntRange(0, 3).Draw(p.T, "solved") == 0,
	}
	switch do := rapid.IntRange(0, 23).Draw(p.T, "do"); {
	case do < 10:
		req.ID = rapid.SampledFrom([]string{"", "", "", "a", "b"}).Draw(p.T, "id")
		p.charge(req)
	case do < 13:
		p.look("check", req)
	case do < 15 && len(p.decisions) > 0:
		i := rapid.IntRange(0, len(p.decisions)-1).Draw(p.T, "decision")
		err := p.gate.Refund(p.test.Context(), p.decisions[i])
		if known := p.model.refund(p.charges[i]); known != (err == nil) || err != nil && !errors.Is(err, admission.ErrUnknownRequest) {
			p.Fatalf("refund of a decision: %v, want known %v", err, known)
		}
		p.charges[i] = nil // a second time does nothing
	case do < 17:
		req.ID = rapid.SampledFrom([]string{"a", "b"}).Draw(p.T, "id")
		got, err := p.gate.RefundRequest(p.test.Context(), req)
		if known := p.model.refundRequest(req); known != (err == nil) || err != nil && !errors.Is(err, admission.ErrUnknownRequest) {
			p.Fatalf("refund of request %s: %v, want known %v", req.ID, err, known)
		}
		if err == nil {
			want, admitted, _ := p.model.decide(req, false)
			p.compare("refund", req, got, want, admitted)
		}
	case do == 17:
		for i := range p.model.rules {
			p.numbers(&p.model.rules[i])
		}
		setRules(p.test, p.gate, parse(p.test, p.text()))
	case do == 18:
		rule := rapid.SampledFrom([]string{"", p.model.rules[0].name}).Draw(p.T, "reset")
		got, err := p.gate.Reset(p.test.Context(), req, rule)
		if err != nil {
			p.Fatal(err)
		}
		p.model.reset(req, rule)
		want, admitted, _ := p.model.decide(req, false)
		p.compare("reset", req, got, want, admitted)
	case do < 21:
		if err := p.gate.Add(p.test.Context(), req); err != nil {
			p.Fatal(err)
		}
		p.model.add(req)
		p.look("add", req)
	case do < 23:
		units := map[string]int{"r0": rapid.IntRange(0, 4).Draw(p.T, "units")}
		if len(p.model.rules) > 1 {
			units["r1"] = 20
		}
		if err := p.gate.Erase(p.test.Context(), req, units); err != nil {
			p.Fatal(err)
		}
		p.model.erase(req, units)
		p.look("erase", req)
	}
}

// look compares how things stand.
func (p *play) look(after string, req admission.Request) {
	p.Helper()
	got := check(p.test, p.gate, req)
	want, admitted, _ := p.model.decide(req, false)
	p.compare(after, req, got, want, admitted)
}

func (p *play) charge(req admission.Request) {
	got := charge(p.test, p.gate, req)
	want, admitted, charges := p.model.decide(req, true)
	p.compare("charge", req, got, want, admitted)
	p.decisions, p.charges = append(p.decisions, got), append(p.charges, charges)
}

func (p *play) compare(what string, req admission.Request, got admission.Decision, want []admission.Verdict, admitted bool) {
	p.Helper()
	if diff := gocmp.Diff(want, got.Rules, cmpopts.EquateEmpty()); diff != "" || got.Admitted != admitted {
		p.Fatalf("%s of %+v at %v: admitted %v, want %v (-want +got):\n%s\nrules:\n%s",
			what, req, p.clk.Now(), got.Admitted, admitted, diff, p.text())
	}
}
