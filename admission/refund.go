package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/internal/failure"
)

// A receipt is what a charge counted.
type receipt struct {
	call store.Call
	used atomic.Bool
}

// newReceipt returns the receipt of a charge. It takes ownership of the call's tallies.
func newReceipt(charge store.Call, counts []store.Count) *receipt {
	r := &receipt{call: store.Call{Mode: store.Refund, Request: charge.Request, Tallies: charge.Tallies[:0]}}
	for i, t := range charge.Tallies {
		if t.Stamp = counts[i].Stamp; t.Stamp != 0 {
			r.call.Tallies = append(r.call.Tallies, t)
		}
	}
	return r
}

// Refund takes back what the charge that returned d counted, for an operation that failed. It does nothing if d was refunded before, is a
// denial or is Degraded. The error is ErrUnavailable; the units may then have been taken back, and a charge with an ID, or one that was not
// sent, can be refunded again. It is ErrUnknownRequest if the charge had an ID and is no longer recorded, after a minute.
func (g *Gate) Refund(ctx context.Context, d Decision) error {
	if d.receipt == nil || len(d.receipt.call.Tallies) == 0 || !d.receipt.used.CompareAndSwap(false, true) {
		return nil
	}
	recorded := d.receipt.call.Request != ""
	counts, err := g.change(ctx, d.receipt.call)
	switch {
	case err != nil:
		notSent := errors.Is(err, errResting) || errors.Is(err, store.ErrTooMany)
		d.receipt.used.Store(!recorded && !notSent)
	case recorded && !stamped(counts):
		return ErrUnknownRequest
	}
	return err
}

// stamped reports whether a refund by ID found the charge.
func stamped(counts []store.Count) bool {
	return slices.ContainsFunc(counts, func(c store.Count) bool { return c.Stamp != 0 })
}

// RefundRequest takes back what the charge with the same subject and ID counted less than a minute ago, in any process, and returns the
// new state of the rules as Check does. Repeating it is harmless. The error is ErrUnknownRequest if no such charge is recorded,
// ErrUnavailable, or ErrInvalidRequest without an ID.
func (g *Gate) RefundRequest(ctx context.Context, req Request) (Decision, error) {
	if req.ID == "" {
		return Decision{}, failure.New(ErrInvalidRequest, "ID is empty, a refund should have that of the charge")
	}
	return g.takeBack(ctx, store.Refund, req, "")
}

// Reset drops everything that the rule with this name has counted for the subject of req, and the recorded answers to its requests with
// an ID. An empty name means all rules. The conditions of rules and their current limits do not matter; bans stay. It returns the new
// state of the rules as Check does. The error is ErrUnknownRule, ErrUnavailable or ErrInvalidRequest.
func (g *Gate) Reset(ctx context.Context, req Request, rule string) (Decision, error) {
	return g.takeBack(ctx, store.Reset, req, rule)
}

// takeBack applies a Refund or Reset to all counters of the subject of req, or to those of one rule if rule is not empty.
func (g *Gate) takeBack(ctx context.Context, mode store.Mode, req Request, rule string) (Decision, error) {
	if err := validate(&req); err != nil {
		return Decision{}, err
	}
	req = withDefaults(req)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opts.Timeout) // for all calls together
	defer cancel()
	set := g.Rules()
	if rule != "" && !set.Has(rule) {
		return Decision{}, fmt.Errorf("%w: %q", ErrUnknownRule, rule)
	}
	var p plan
	if err := p.fill(set.PlanCounting, req); err != nil {
		return Decision{}, err
	}
	p.Checks = slices.DeleteFunc(p.Checks, func(c rules.WindowCheck) bool { return rule != "" && c.Rule.Name != rule })
	for i := range p.Checks { // a subject that is unlimited now may have been counted under another tier
		if c := &p.Checks[i]; !needsStore(c) {
			c.Limit = max(1, c.Window.HighestLimit())
		}
	}
	tallies, verdicts := p.tallies(g.keys, true)
	if len(tallies) == 0 {
		if mode == store.Refund {
			return Decision{}, ErrUnknownRequest
		}
		return g.Check(ctx, req)
	}
	call := store.Call{Mode: mode, Tallies: tallies}
	if mode == store.Refund {
		call.Request = g.keys.request(req.ID)
	}
	counts, err := g.change(ctx, call)
	if err != nil {
		return Decision{}, err
	}
	if mode == store.Refund && !stamped(counts) {
		return Decision{}, ErrUnknownRequest
	}
	req.ID = ""
	d, err := g.Check(ctx, req)
	if errors.Is(err, ErrInvalidRequest) { // the request lacks the attribute that sets its cost
		p.read(verdicts, counts)
		d, err = conclude(set, verdicts), nil
		d.At = counts[0].At
	}
	return d, err
}

// change sends a Refund, Reset or Erase to the store, which notifies all processes, and clears this process' denials at once.
func (g *Gate) change(ctx context.Context, call store.Call) ([]store.Count, error) {
	call.Channel = g.keys.channel()
	counts, err := g.ask(ctx, call)
	for i := range call.Tallies {
		g.denied.clear(call.Tallies[i].Subject)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUnavailable, call.Mode, err)
	}
	return counts, nil
}
