package login

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/netaddr"
)

// Settled is the result of settling an attempt.
type Settled struct {
	// Device is a new device token, which the client must keep and send with further attempts for this factor and name. That of a Reset
	// is for Password. Empty: it keeps its token.
	Device string
}

// Settle records the result of the attempt id. The success of a Reset also clears the failures of the password by this name from this
// address. Repeating the same result returns the same answer. The error is ErrUnknownAttempt;
// ErrSettled if the attempt has another result, which is also an ErrLate if it was not settled within 30 seconds; ErrInvalid; or
// ErrUnavailable, then retry.
func (t *Throttle) Settle(ctx context.Context, id string, result Result) (Settled, error) {
	letter, ok := results[result]
	if !ok {
		return Settled{}, failure.New(ErrInvalid, "result must be success, failure or error, got %.40q", result)
	}
	a, keys, err := t.parseAttempt(id)
	if err != nil {
		return Settled{}, err
	}
	c := &call{op: opSettle, rules: t.currentRules().full, device: a.byToken, at: a.at, result: letter, record: keys.outcome(a)}
	c.keys, c.name = t.counters(keys, a)
	store := t.store
	if a.inLocal {
		store, c.rules = t.local, t.currentRules().local
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.opts.Timeout)
	defer cancel()
	re, err := store.do(ctx, c)
	if err != nil {
		return Settled{}, err
	}
	t.apply(ctx, c.rules, a, re.penalties, re.at)
	switch re.outcome {
	case settledOther:
		return Settled{}, ErrSettled
	case settledLate:
		return Settled{}, failure.New(ErrLate, "the attempt was not settled within %v and counts as failed", micros(settleWithin))
	}
	if result == Success && a.factor == Reset {
		if a, err = t.admitOwner(ctx, store, keys, a, c.rules); err != nil {
			return Settled{}, err
		}
	}
	if result != Success || !a.renew && a.byToken || keys != t.keys { // under the other secret the name of the token's owner is unknown here
		return Settled{}, nil
	}
	// Derived from the attempt, so that a repeated call returns the same token.
	device := t.keys.hash("device id", string(a.nonce[:]))
	ends := time.UnixMicro(a.at).Add(t.opts.DeviceLifetime)
	return Settled{Device: t.keys.deviceToken(string(device[:deviceIDSize]), a.name, a.factor, ends)}, nil
}

// admitOwner counts a reset as a password that was right: otherwise what was mistyped before would keep the owner out with the new one. It
// returns the attempt as one for the password. If it is too late by now, the device token alone lets the owner in.
func (t *Throttle) admitOwner(ctx context.Context, store Store, keys *keyring, reset *attemptID, rules *ruleSet) (*attemptID, error) {
	a := *reset
	a.factor, a.device, a.byToken = Password, "", false
	c := &call{
		op: opSettle, rules: rules, at: a.at, result: results[Success],
		record: keys.record("o", keys.hash("outcome for the password", string(a.nonce[:]), strconv.FormatInt(a.at, 10))),
	}
	c.keys, c.name = t.counters(keys, &a)
	re, err := store.do(ctx, c)
	if err != nil {
		return nil, err
	}
	t.apply(ctx, rules, &a, re.penalties, re.at)
	return &a, nil
}

// apply makes the bans among penalties, and queues events of penalties for the history.
func (t *Throttle) apply(ctx context.Context, rs *ruleSet, id *attemptID, penalties []penalty, at int64) {
	for _, p := range penalties {
		r := &rs.rules[p.rule]
		if r.action == ban && !r.Shadow && t.opts.Bans != nil {
			t.ban(ctx, r, id)
		}
		if p.times > 0 {
			t.queueEvent(r, id, p, at)
		}
	}
}

func (t *Throttle) ban(ctx context.Context, r *rule, id *attemptID) {
	target := bans.Target{Kind: bans.IP, Value: id.ip.String()}
	if r.kind == byNetwork {
		target = bans.Target{Kind: bans.Network, Value: netaddr.Network(id.ip)}
	}
	_, err := t.opts.Bans.Ban(ctx, bans.Order{Target: target, Rule: r.name, For: r.For, Growing: r.Growing, AtMost: r.AtMost})
	if err != nil && !errors.Is(err, bans.ErrRefused) { // on the rules' allow list; that error contains the target
		t.opts.Logger.WarnContext(ctx, "login: ban failed", "rule", r.name, "error", err)
	}
}
