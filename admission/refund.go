package admission

import (
	"context"
	"fmt"
	"sync/atomic"
)

// A receipt is what a charge counted.
type receipt struct {
	call Call
	used atomic.Bool
}

// newReceipt returns that of a charge. Its tallies become the receipt's.
func newReceipt(charge Call, counts []Count) *receipt {
	r := &receipt{call: Call{Mode: Refund, Request: charge.Request, Tallies: charge.Tallies[:0]}}
	for i, t := range charge.Tallies {
		if t.Stamp = counts[i].Stamp; t.Stamp != 0 {
			r.call.Tallies = append(r.call.Tallies, t)
		}
	}
	return r
}

// Refund takes back what the charge that returned d counted, for a business that failed. A second refund of the same decision,
// and that of a denial or of a Degraded admission, does nothing. The error is ErrUnavailable; it may then have been taken back.
func (g *Gate) Refund(ctx context.Context, d Decision) error {
	if d.receipt == nil || len(d.receipt.call.Tallies) == 0 || !d.receipt.used.CompareAndSwap(false, true) {
		return nil
	}
	_, err := g.change(ctx, d.receipt.call)
	return err
}

// RefundRequest takes back what the charge with the same subject and ID counted less than a minute ago, by whatever process, and
// returns how the rules stand then, as Check does. A repetition is harmless. The error is ErrUnknownRequest if nothing is
// remembered of such a charge, ErrUnavailable, or ErrInvalidRequest without an ID.
func (g *Gate) RefundRequest(ctx context.Context, req Request) (Decision, error) {
	if req.ID == "" {
		return Decision{}, fmt.Errorf("%w: ID is empty, a refund should have that of the charge", ErrInvalidRequest)
	}
	tallies, err := g.counters(&req, "")
	if err != nil {
		return Decision{}, err
	}
	counts, err := g.change(ctx, Call{Mode: Refund, Tallies: tallies, Request: g.keys.request(req.ID)})
	if err != nil {
		return Decision{}, err
	}
	for i := range counts {
		if counts[i].Stamp != 0 {
			req.ID = ""
			return g.Check(ctx, req)
		}
	}
	return Decision{}, ErrUnknownRequest
}

// Reset forgets all that the rule of this name has counted for the subject of req, or all rules if the name is empty, whatever
// they match; bans stay. It returns how the rules stand then, as Check does. The error is ErrUnknownRule, ErrUnavailable or
// ErrInvalidRequest.
func (g *Gate) Reset(ctx context.Context, req Request, rule string) (Decision, error) {
	tallies, err := g.counters(&req, rule)
	if err != nil {
		return Decision{}, err
	}
	if len(tallies) > 0 {
		if _, err := g.change(ctx, Call{Mode: Reset, Tallies: tallies}); err != nil {
			return Decision{}, err
		}
	}
	req.ID = ""
	return g.Check(ctx, req)
}

// counters returns all counters of the subject of req, those of one rule if it is named.
func (g *Gate) counters(req *Request, rule string) ([]Tally, error) {
	if err := req.validate(); err != nil {
		return nil, err
	}
	*req = req.withDefaults()
	rules := g.rules.Load()
	if rule != "" && !rules.has(rule) {
		return nil, fmt.Errorf("%w: %q", ErrUnknownRule, rule)
	}
	var p plan
	if err := rules.plan(&p, counting, req); err != nil {
		return nil, err
	}
	tallies, _ := p.tallies(g.keys, req.ID != "")
	kept := tallies[:0]
	for i, at := range p.of {
		if rule == "" || p.claims[at].rule.name == rule {
			kept = append(kept, tallies[i])
		}
	}
	return kept, nil
}

// change puts a refund or a reset to the store and tells all processes of it, this one at once.
func (g *Gate) change(ctx context.Context, call Call) ([]Count, error) {
	call.Channel = g.keys.channel()
	counts, err := g.ask(ctx, call)
	if g.denied != nil {
		for i := range call.Tallies {
			g.denied.clear(call.Tallies[i].Subject)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUnavailable, call.Mode, err)
	}
	return counts, nil
}
