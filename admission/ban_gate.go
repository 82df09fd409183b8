package admission

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// banned returns the ban that keeps req out, and the rest of it. Whoever the rules allow for good is not kept out.
func (g *Gate) banned(rules *Rules, req *Request) (b Ban, left time.Duration, ok bool) {
	held := g.bans.find(req.User, req.Device, req.IP)
	if held == nil {
		return Ban{}, 0, false
	}
	if rules.neverBanned(req.User, "", req.IP) != "" {
		return Ban{}, 0, false
	}
	// A device on the list is spared the bans of itself only: its name is the client's own word.
	if rules.neverBanned("", req.Device, netip.Addr{}) != "" {
		if held = g.bans.find(req.User, "", req.IP); held == nil {
			return Ban{}, 0, false
		}
	}
	left = time.Duration(held.ends - g.now())
	return held.Ban, left, left > 0
}

// Banned returns the ban that keeps req out, if there is one, and the rest of it. It asks nobody.
func (g *Gate) Banned(req Request) (b Ban, left time.Duration, ok bool) {
	return g.banned(g.Rules(), &req)
}

// refusedByBan is the decision on a banned caller.
func refusedByBan(b Ban, left time.Duration, version string) Decision {
	return Decision{
		Action: ActionBan, Reason: Banned, Rule: b.Rule, Limit: Unlimited, Remaining: Unlimited, RetryAfter: left, ResetAfter: left,
		Version: version,
	}
}

// order is the ban that r asks for.
func (r *rule) order(target BanTarget) BanOrder {
	e := &r.onExceed
	return BanOrder{BanTarget: target, Rule: r.name, For: e.length, Growing: e.growing, AtMost: e.atMost}
}

// ban bans target as c's rule asks for, within the given time, and makes v say so. If the store does not answer, v stays a plain refusal
// and the next pulse bans. Whoever may not be banned, or has a name that no ban can have, is only refused.
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

// banTarget bans whom refusals without the store have brought so far, with the next pulse.
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

// exchange puts news to the store and takes in what it answers.
func (g *Gate) exchange(ctx context.Context, news BanNews) (BanState, error) {
	news.Process, news.Since = g.process, g.bans.known()
	state, err := g.store.Exchange(ctx, g.keys.bans(), news)
	if err != nil {
		return BanState{}, err
	}
	g.breaker.succeeded()
	g.bans.apply(&state, news.Since, g.now())
	return state, nil
}

// find returns the last state of a target.
func (s *BanState) find(t BanTarget) (Ban, bool) {
	for _, b := range slices.Backward(s.Bans) {
		if b.BanTarget == t {
			return b, true
		}
	}
	return Ban{}, false
}

// Bans returns the bans in force, as this process knows them, by kind and value.
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

// Ban bans by order, and returns the ban as it is. An order without a rule replaces the ban in force; one with a rule never shortens
// it. The error is ErrBanRefused if the rules' list `bans: {allow: …}` has the target or if it is this machine, ErrInvalidRequest,
// or ErrUnavailable; the ban may then have been made, and around ErrFull it has not.
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

// Lift ends the ban of a target, everywhere, and nothing else: what rules have counted stays. ok is false if there was none. The error
// is ErrUnavailable or ErrInvalidRequest.
func (g *Gate) Lift(ctx context.Context, target BanTarget) (ok bool, err error) {
	target, err = ParseBanTarget(string(target.Kind), target.Value)
	if err != nil {
		return false, err
	}
	k, _ := target.listed()
	held := g.bans.get(k) // which the store may have forgotten
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opts.Timeout)
	defer cancel()
	state, err := g.exchange(ctx, BanNews{Lift: []BanTarget{target}})
	if err != nil {
		return false, fmt.Errorf("%w: lift: %w", ErrUnavailable, err)
	}
	return state.Lifted > 0 || held != nil && held.ends > g.now(), nil
}
