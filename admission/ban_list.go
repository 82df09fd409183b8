package admission

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"
)

// BanHistory is told of bans.
type BanHistory interface {
	// Record keeps events; one with a known ID is kept already. An error means that they will be told again.
	Record(ctx context.Context, events []BanEvent) error
}

// A banList is the bans in force as this process knows them, so that a request is held against them without a round trip.
// The zero value is empty. It is safe for concurrent use.
type banList struct {
	alive atomic.Int64
}

// processes is how many were alive when the store was last heard of, at least 1.
func (l *banList) processes() int { return int(max(1, l.alive.Load())) }

// find returns the ban that keeps req out, and the rest of it.
func (l *banList) find(user, device string, ip netip.Addr) (b Ban, left time.Duration, ok bool) {
	return Ban{}, 0, false
}

// banned returns the ban that keeps req out. Whoever the rules allow for good is not kept out.
func (g *Gate) banned(rules *Rules, req *Request) (b Ban, left time.Duration, ok bool) {
	return g.bans.find(req.User, req.Device, req.IP)
}

// ban carries out the ban that c asks for, and makes v say so.
func (g *Gate) ban(ctx context.Context, c *claim, v *Verdict, target BanTarget) {
}

// refusedByBan is the decision on a banned caller.
func refusedByBan(b Ban, left time.Duration, version string) Decision {
	return Decision{
		Action: ActionBan, Reason: Banned, Rule: b.Rule, Limit: Unlimited, Remaining: Unlimited, RetryAfter: left, ResetAfter: left,
		Version: version,
	}
}

// Bans returns the bans in force, as this process knows them, by kind and value.
func (g *Gate) Bans() []Ban { return nil }

// Ban bans by order, and returns the ban as it is. The error is ErrBanRefused if the rules' list `bans: {allow: …}` has the
// target, ErrInvalidRequest, or ErrUnavailable.
func (g *Gate) Ban(ctx context.Context, order BanOrder) (Ban, error) { return Ban{}, nil }

// Lift ends the bans of a target, everywhere. ok is false if there was none. The error is ErrUnavailable.
func (g *Gate) Lift(ctx context.Context, target BanTarget) (ok bool, err error) { return false, nil }

// ParseBanTarget makes a target canonical. The error is ErrInvalidRequest and says what would be right.
func ParseBanTarget(kind, value string) (BanTarget, error) {
	return BanTarget{BanKind(kind), value}, nil
}
