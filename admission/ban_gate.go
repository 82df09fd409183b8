package admission

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// banned returns the ban that excludes req, and the time left of it. Callers on an allow list are not excluded.
func (g *Gate) banned(rules *Rules, req *Request) (b Ban, left time.Duration, ok bool) {
	held := g.bans.find(req.User, req.Device, req.IP)
	if held == nil {
		return Ban{}, 0, false
	}
	if rules.neverBanned(req.User, "", req.IP) != "" {
		return Ban{}, 0, false
	}
	// A device on the list is only exempt from bans of that device, because clients choose their device name themselves.
	if rules.neverBanned("", req.Device, netip.Addr{}) != "" {
		if held = g.bans.find(req.User, "", req.IP); held == nil {
			return Ban{}, 0, false
		}
	}
	left = time.Duration(held.ends - g.now())
	return held.Ban, left, left > 0
}

// Banned returns the ban that excludes req, if there is one, and the time left of it. It makes no network call.
func (g *Gate) Banned(req Request) (b Ban, left time.Duration, ok bool) {
	return g.banned(g.Rules(), &req)
}

// refusedByBan returns the decision for a banned caller.
func refusedByBan(b Ban, left time.Duration, version string) Decision {
	return Decision{
		Action: ActionBan, Reason: Banned, Rule: b.Rule, Limit: Unlimited, Remaining: Unlimited, RetryAfter: left, ResetAfter: left,
		Version: version,
	}
}

// order returns the ban that r orders for target.
func (r *rule) order(target BanTarget) BanOrder {
	e := &r.onExceed
	return BanOrder{BanTarget: target, Rule: r.name, For: e.length, Growing: e.growing, AtMost: e.atMost}
}

// ban bans target as c's rule demands, within the given time, and sets v to the ban. If the store does not answer, v stays a plain
// refusal and the next pulse bans. A target that may not be banned, or whose name is not valid for a ban, is only refused.
func (g *Gate) ban(ctx context.Context, within time.Duration, c *claim, v *Verdict, target BanTarget) {
	target, ok := g.bannable(target)
	if !ok {
		return
	}
	order := c.rule.order(target)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	state, err := g.exchange(ctx, BanNews{Put: []BanOrder{order}})
	if err != nil {
		g.banLater(order)
		return
	}
	if b, ok := state.find(target); ok && !b.lifted() {
		left := max(0, b.Until.Sub(state.At))
		v.Action, v.RetryAfter, v.ResetAfter = ActionBan, left, left
	}
}

// banTarget bans target with the next pulse; refusals without the store have reached the limit of r's strikes.
func (g *Gate) banTarget(r *rule, target BanTarget) {
	if target, ok := g.bannable(target); ok {
		g.banLater(r.order(target))
	}
}

func (g *Gate) banLater(order BanOrder) {
	g.bans.later(order)
	g.heardOfBans()
}

// bannable makes the target of a rule canonical; ok is false if it may not, or cannot, be banned.
func (g *Gate) bannable(t BanTarget) (canonical BanTarget, ok bool) {
	t, err := ParseBanTarget(string(t.Kind), t.Value)
	return t, err == nil && g.Rules().spares(t) == ""
}

// exchange sends news to the store and applies the reply.
func (g *Gate) exchange(ctx context.Context, news BanNews) (BanState, error) {
	news.Process, news.Since = g.process, g.bans.known()
	state, err := g.store.Exchange(ctx, g.keys.bans(), news)
	if err != nil {
		return BanState{}, err
	}
	g.breaker.Succeeded()
	g.bans.apply(&state, news.Since, g.now())
	return state, nil
}

// find returns the latest state of a target.
func (s *BanState) find(t BanTarget) (Ban, bool) {
	for _, b := range slices.Backward(s.Bans) {
		if b.BanTarget == t {
			return b, true
		}
	}
	return Ban{}, false
}

// Bans returns the bans in force that this process has received, sorted by kind and value.
func (g *Gate) Bans() []Ban {
	held := g.bans.running(g.now())
	bans := make([]Ban, len(held))
	for i, b := range held {
		bans[i] = b.Ban
	}
	slices.SortFunc(bans, func(a, b Ban) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Value, b.Value))
	})
	return bans
}

// Ban executes order and returns the resulting ban. An order without a rule replaces the ban in force; an order with a rule never
// shortens it. The error is ErrBanRefused if the target is on the rules' list `bans: {allow: …}` or is this machine, ErrInvalidRequest,
// or ErrUnavailable. After ErrUnavailable the ban may have been made, unless it wraps ErrFull.
func (g *Gate) Ban(ctx context.Context, order BanOrder) (Ban, error) {
	target, err := ParseBanTarget(string(order.Kind), order.Value)
	if err != nil {
		return Ban{}, err
	}
	order.BanTarget = target
	if err := order.validate(); err != nil {
		return Ban{}, err
	}
	if why := g.Rules().spares(target); why != "" {
		return Ban{}, fmt.Errorf("%w: %s %s: %s", ErrBanRefused, target.Kind, target.Value, why)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opts.Timeout)
	defer cancel()
	state, err := g.exchange(ctx, BanNews{Put: []BanOrder{order}})
	if err != nil {
		return Ban{}, fmt.Errorf("%w: ban: %w", ErrUnavailable, err)
	}
	b, ok := state.find(target)
	if !ok {
		return Ban{}, fmt.Errorf("%w: ban: %w", ErrUnavailable, ErrFull)
	}
	return b, nil
}

// Lift ends the ban of a target in all processes. What rules have counted stays. ok is false if there was no ban. The error is
// ErrUnavailable or ErrInvalidRequest.
func (g *Gate) Lift(ctx context.Context, target BanTarget) (ok bool, err error) {
	target, err = ParseBanTarget(string(target.Kind), target.Value)
	if err != nil {
		return false, err
	}
	k, _ := target.listed()
	held := g.bans.get(k) // the store may have lost it
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opts.Timeout)
	defer cancel()
	state, err := g.exchange(ctx, BanNews{Lift: []BanTarget{target}})
	if err != nil {
		return false, fmt.Errorf("%w: lift: %w", ErrUnavailable, err)
	}
	return state.Lifted > 0 || held != nil && held.ends > g.now(), nil
}
