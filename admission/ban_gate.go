package admission

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/breaker"
)

// banned returns the ban that excludes req, and the time left of it; nil if there is none. Callers on an allow list are not excluded.
func (g *Gate) banned(req *Request) (b *bans.Ban, left time.Duration) {
	return g.bans.Find(req.User, req.Device, req.IP)
}

// Banned returns the ban that excludes req, if there is one, and the time left of it. It makes no network call.
func (g *Gate) Banned(req Request) (b bans.Ban, left time.Duration, ok bool) {
	if b, left := g.banned(&req); b != nil {
		return *b, left, true
	}
	return bans.Ban{}, 0, false
}

// Bans returns the bans in force that this process has received, sorted by kind and value.
func (g *Gate) Bans() []bans.Ban { return g.bans.All() }

// Ban bans a target, see bans.List.Ban.
func (g *Gate) Ban(ctx context.Context, order bans.Order) (bans.Ban, error) {
	return g.bans.Ban(ctx, order)
}

// Lift ends the ban of a target in all processes, see bans.List.Lift. What rules have counted stays.
func (g *Gate) Lift(ctx context.Context, target bans.Target) (ok bool, err error) {
	return g.bans.Lift(ctx, target)
}

// refusedByBan returns the decision for a banned caller.
func refusedByBan(b *bans.Ban, left time.Duration, version string) Decision {
	return Decision{
		Action: rules.Ban, Reason: Banned, Rule: b.Rule, Limit: rules.Unlimited, Remaining: rules.Unlimited, RetryAfter: left, ResetAfter: left,
		Version: version,
	}
}

// orderOf returns the ban that r orders for target.
func orderOf(r *rules.Effect, target bans.Target) bans.Order {
	e := &r.OnExceed
	return bans.Order{Target: target, Rule: r.Name, For: e.For, Growing: e.Growing, AtMost: e.AtMost}
}

// ban bans target as c's rule demands, within the given time, and sets v to the ban. If the store does not answer, v stays a plain
// refusal and Run bans. A target that may not be banned, or whose name is not valid for a ban, is only refused.
func (g *Gate) ban(ctx context.Context, within time.Duration, c *rules.WindowCheck, v *Verdict, target bans.Target) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	if left, ok := g.bans.BanOrQueue(ctx, orderOf(c.Rule, target)); ok {
		v.Action, v.RetryAfter, v.ResetAfter = rules.Ban, left, left
	}
}

// A reportingBanStore reports to the breaker that the store answers.
type reportingBanStore struct {
	bans.Store
	breaker *breaker.Breaker
}

func (s reportingBanStore) Exchange(ctx context.Context, key string, news bans.News) (bans.State, error) {
	state, err := s.Store.Exchange(ctx, key, news)
	if err == nil {
		s.breaker.Succeeded()
	}
	return state, err
}
