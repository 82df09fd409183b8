package login

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"time"
	"unicode/utf8"

	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/netaddr"
)

// Reserve decides an attempt. If it allows the attempt, it counts it as a failure that Settle may take back; an attempt that is not
// settled within 30 seconds has failed. Reserve returns within Options.Timeout, plus the time to verify a CAPTCHA. The error is
// ErrInvalid, or ErrUnavailable if a solution could not be verified. An unavailable store is not an error.
func (t *Throttle) Reserve(ctx context.Context, a Attempt) (Decision, error) {
	return t.decide(ctx, opReserve, a)
}

// Check returns how Reserve would decide now, without a CAPTCHA, and counts nothing. Do not check a password because Check returned
// Allow: any number of concurrent attempts may get that answer.
func (t *Throttle) Check(ctx context.Context, a Attempt) (Decision, error) {
	return t.decide(ctx, opCheck, a)
}

// Report counts a failure that happened without a reservation, and decides what comes next. It counts nothing while the attempt is
// denied.
func (t *Throttle) Report(ctx context.Context, a Attempt) (Decision, error) {
	return t.decide(ctx, opReport, a)
}

var modes = [...]string{opReserve: "reserve", opCheck: "check", opReport: "report"}

func (t *Throttle) decide(ctx context.Context, do op, a Attempt) (Decision, error) {
	p, err := t.prepare(do, &a)
	if err != nil {
		return Decision{}, err
	}
	if ban, left, ok := t.Banned(Subject{Name: a.Name, IP: a.IP}); ok {
		d := Decision{Action: Deny, Reason: ReasonBanned, Rule: ban.Rule, RetryAfter: left}
		t.opts.OnDecision(modes[do], &d)
		return d, nil
	}
	d, err := t.ask(ctx, p, &a)
	if err != nil {
		return Decision{}, err
	}
	t.opts.OnDecision(modes[do], &d)
	return d, nil
}

// A prepared is an attempt in the terms of the store.
type prepared struct {
	name string // normalized
	call *call
	id   attemptID
}

func (t *Throttle) prepare(do op, a *Attempt) (*prepared, error) {
	typed, err := t.normalize(a.Name)
	if err != nil {
		return nil, err
	}
	factor, err := validFactor(a.Factor)
	if err != nil {
		return nil, err
	}
	switch {
	case !a.IP.IsValid():
		return nil, failure.New(ErrInvalid, "address is required, the client's")
	case utf8.RuneCountInString(a.ID) > 255:
		return nil, failure.New(ErrInvalid, "ID must have at most 255 characters, got %d", utf8.RuneCountInString(a.ID))
	}
	p := &prepared{name: typed}
	p.id = attemptID{name: t.keys.name(typed), ip: a.IP.Unmap().WithZone(""), factor: factor, renew: true}
	if a.Device != "" {
		device, ends, ok := t.keys.parseDevice(a.Device, p.id.name, factor)
		if !ok && t.previous != nil {
			device, ends, ok = t.previous.parseDevice(a.Device, t.previous.name(typed), factor)
			p.id.foreign = ok
		}
		if ok && time.Until(ends) > 0 {
			p.id.device, p.id.renew = device, p.id.foreign || time.Until(ends) < t.opts.DeviceLifetime/2
		}
	}
	p.call = &call{op: do}
	p.call.keys, p.call.name = t.counters(t.keys, &p.id)
	if a.ID == "" {
		rand.Read(p.id.nonce[:])
	} else {
		p.id.nonce = t.keys.hash("request", modes[do], a.ID, string(p.id.name[:]), netaddr.Address(a.IP), factor, a.Device, a.Captcha)
		if do != opCheck {
			p.call.record = t.keys.record("q", p.id.nonce)
		}
	}
	return p, nil
}

// ask decides an attempt. It verifies, and thereby uses up, a solution only if the decision is a challenge, so that other attempts keep
// it.
func (t *Throttle) ask(ctx context.Context, p *prepared, a *Attempt) (Decision, error) {
	if a.Captcha == "" || t.opts.Captcha == nil || p.call.op != opReserve {
		d, _, err := t.put(ctx, p, p.call.op, false)
		return d, err
	}
	d, known, err := t.put(ctx, p, opCheck, false)
	solved := d.Action == Challenge
	switch {
	case err != nil, known:
		return d, err
	case solved:
		if wait, ok := t.solutionAllowed(ctx, a.IP); !ok {
			return Decision{Action: Delay, Reason: ReasonTooManySolutions, RetryAfter: wait}, nil
		}
		err := t.opts.Captcha.Verify(ctx, a.Captcha, d.Challenge, a.IP)
		switch {
		case errors.Is(err, captcha.ErrRefused), errors.Is(err, captcha.ErrFellBack):
			if p.call.record != "" { // the same request, sent twice concurrently, may have used it
				if again, known, err := t.put(ctx, p, opCheck, false); err == nil && known {
					return again, nil
				}
			}
			d.Reason = ReasonCaptchaRefused
			return d, nil
		case err != nil:
			return Decision{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	d, _, err = t.put(ctx, p, p.call.op, solved)
	return d, err
}

// solutionAllowed reports whether the address may have another solution verified, or how long it must wait.
func (t *Throttle) solutionAllowed(ctx context.Context, ip netip.Addr) (wait time.Duration, ok bool) {
	if t.opts.Solutions == nil {
		return 0, true
	}
	return t.opts.Solutions(ctx, ip)
}

func (t *Throttle) binding(p *prepared, risk int) captcha.Binding {
	subject := func(k *keyring) string {
		name := k.name(p.name)
		return k.hash("challenge", string(name[:]), netaddr.Address(p.id.ip), p.id.factor).String()
	}
	b := captcha.Binding{Purpose: Purpose, Subject: subject(t.keys), Risk: min(max(risk, 0), captcha.MaxRisk)}
	if t.previous != nil {
		b.PreviousSubject = subject(t.previous)
	}
	return b
}

// put decides an attempt in the store, or in this process if the store is unavailable. known means that the answer is a recorded one.
func (t *Throttle) put(ctx context.Context, p *prepared, do op, solved bool) (d Decision, known bool, err error) {
	current := t.currentRules()
	rs, c := current.full, *p.call
	c.op, c.rules, c.solved = do, rs, solved
	re, err := t.askStore(ctx, &c)
	degraded := err != nil
	if degraded {
		if errors.Is(err, store.ErrTooMany) { // overload is not an outage; deciding locally would count the attempt twice
			return d, false, err
		}
		rs = current.local
		own := c // the store may still be reading c
		own.rules = rs
		if re, err = t.local.do(ctx, &own); err != nil {
			return d, false, err
		}
	}
	d = Decision{Action: actionWords[min(re.action, deny)], RetryAfter: micros(re.left), Degraded: degraded}
	if re.shadow >= 0 {
		d.Shadow = rs.rules[re.shadow].name
	}
	if re.rule >= 0 {
		r := &rs.rules[re.rule]
		d.Rule, d.Reason = r.name, reasonOf(r)
	}
	if re.held {
		d.Reason = ReasonInFlight
	}
	switch {
	case d.Action == Challenge:
		d.Challenge = t.binding(p, bits.Len64(uint64(re.failures)/10))
	case d.Action == Allow && p.call.op == opReserve && (do == opReserve || re.known):
		id := p.id
		id.at, id.byToken, id.inLocal = re.at, re.device, degraded
		d.ID = t.keys.attemptToken(&id)
	}
	t.apply(ctx, rs, &p.id, re.penalties, re.at)
	return d, re.known, nil
}

var errResting = errors.New("the store did not answer recently")

// askStore asks the store for a decision, unless it failed to answer within the last second.
func (t *Throttle) askStore(ctx context.Context, c *call) (reply, error) {
	if time.Now().UnixNano() < t.resting.Load() {
		return reply{}, errResting
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.opts.Timeout)
	defer cancel()
	re, err := t.store.do(within, c)
	switch {
	case errors.Is(err, store.ErrTooMany), errors.Is(err, errFull): // it still answers attempts that it has already counted
	case err != nil:
		t.resting.Store(time.Now().Add(restFor).UnixNano())
		if !t.away.Swap(true) {
			t.opts.Logger.WarnContext(ctx, "login: the store does not answer, decisions use local counts", "error", err)
		}
	case t.away.Swap(false):
		t.opts.Logger.InfoContext(ctx, "login: the store answers again")
	}
	return re, err
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
