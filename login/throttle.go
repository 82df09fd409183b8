package login

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/captcha"
)

const (
	defaultNamespace  = "tidegate"
	defaultTimeout    = time.Second
	restFor           = time.Second // after the store did not answer
	defaultDeviceLife = 90 * 24 * time.Hour
	maxDeviceLife     = 10 * 366 * 24 * time.Hour
)

// Purpose is that of the challenges which open an attempt.
const Purpose = "login"

// Options of a Throttle.
type Options struct {
	// Secret keys the hashes that stand for names, addresses and devices in the store, and signs attempts and device tokens. Required, 16 bytes
	// or more; all processes that share a store need the same.
	Secret []byte
	// Namespace begins every key. Default "tidegate"; 1 to 64 of A-Z a-z 0-9 . _ : -
	Namespace string
	// Timeout is the longest that the store may take. Zero means a second: what it counts for an attempt whose caller has given up is not taken back.
	Timeout time.Duration
	// DeviceLife is how long a device token is good for. Zero means 90 days; from a minute to 10 years. One that has less than half of it left
	// is replaced at the next success.
	DeviceLife time.Duration
	// Normalize makes names that authenticate as one the same. Nil means Normalize of this package.
	Normalize func(name string) string
	// Captcha verifies solutions. Nil: none is ever right, so that who is challenged has to wait.
	Captcha Verifier
	// Solutions reports whether the address may have one more solution verified, or after which time: each may be a call to another's server, and
	// one that is wrong counts as no failure. Nil: there is no limit.
	Solutions func(ctx context.Context, ip netip.Addr) (wait time.Duration, ok bool)
	// Bans are those of the process. Nil: nobody is banned.
	Bans Bans
	// History is told what rules did, by Run. Nil: nobody is.
	History History
	// Decided is told of every decision, by the name of its mode: reserve, check or report. It must not wait. Nil: nobody is.
	Decided func(mode string, d *Decision)
	// Logger gets what goes wrong. Nil means slog.Default(). No name ever stands there.
	Logger *slog.Logger
}

// A Verifier is what a Throttle needs of a captcha.Provider.
type Verifier interface {
	Verify(ctx context.Context, token string, b captcha.Binding, ip netip.Addr) error
}

// Bans are what a Throttle needs of an *admission.Gate.
type Bans interface {
	Banned(req admission.Request) (b admission.Ban, left time.Duration, ok bool)
	Ban(ctx context.Context, order admission.BanOrder) (admission.Ban, error)
}

func (o Options) withDefaults() Options {
	o.Namespace = cmp.Or(o.Namespace, defaultNamespace)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.DeviceLife = cmp.Or(o.DeviceLife, defaultDeviceLife)
	if o.Normalize == nil {
		o.Normalize = Normalize
	}
	if o.Decided == nil {
		o.Decided = func(string, *Decision) {}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// A Throttle decides whether somebody may try to log in. Make it with New; the zero value is not usable. It is safe for concurrent use.
type Throttle struct {
	store Store
	local *MemoryStore // counts while the store is away
	rules func() *admission.Rules
	keys  *keyring
	opts  Options
	built atomic.Pointer[ladders]

	away    atomic.Bool  // the store did not answer the last time
	resting atomic.Int64 // unix ns until which it is not asked for decisions
	events  chan Event
	dropped atomic.Uint64 // events that found no room
}

// ladders are those of one set of rules.
type ladders struct {
	of          *admission.Rules
	full, local *ladder
}

// New returns a throttle by the login rules of what rules returns, which may change from call to call. It starts nothing and asks the store
// nothing.
func New(store Store, rules func() *admission.Rules, opts Options) (*Throttle, error) {
	if store == nil || rules == nil {
		return nil, errors.New("login: New needs a store and rules")
	}
	opts = opts.withDefaults()
	switch {
	case opts.Timeout < 0:
		return nil, fmt.Errorf("login: Options.Timeout is %v, should be positive", opts.Timeout)
	case opts.DeviceLife < time.Minute || opts.DeviceLife > maxDeviceLife:
		return nil, fmt.Errorf("login: Options.DeviceLife is %v, should be from a minute to 10 years", opts.DeviceLife)
	}
	keys, err := newKeyring(opts.Namespace, opts.Secret)
	if err != nil {
		return nil, err
	}
	return &Throttle{store: store, local: NewMemoryStore(), rules: rules, keys: keys, opts: opts, events: make(chan Event, maxEvents)}, nil
}

// ladders returns those of the rules in force.
func (t *Throttle) ladders() *ladders {
	rules := t.rules()
	l := t.built.Load()
	if l == nil || l.of != rules {
		full := newLadder(rules.Login(), t.opts.DeviceLife)
		l = &ladders{rules, full, halved(full, rules.Login(), t.opts.DeviceLife)}
		t.built.Store(l)
	}
	return l
}

// An Attempt is somebody who wants to log in.
type Attempt struct {
	Name string // as it was typed; required, at most 256 bytes
	// IP is the address of the client, after trusted proxies have been resolved. Required. Of an IPv6 address the first 64 bits count.
	IP netip.Addr
	// Device is the token that an earlier success gave this client, or empty. One that is worth nothing is like none.
	Device string
	// Factor is what is tried: password, otp, reset; each has counters of its own. Empty means Password.
	Factor string
	// Captcha is a solution of the challenge that the last decision asked for, or empty. Only Reserve looks at it.
	Captcha string
	// ID makes a resend harmless: within a minute the same ID of the same attempt is counted once and gets the same answer. Empty, or 1 to 255
	// bytes. Make a new one for each submitted form, and never take it from the client: whoever chooses it could guess a minute long with one
	// attempt.
	ID string
}

// Action is what to do with an attempt. Closed set; the same word stands in JSON, metrics and logs.
type Action string

// The actions, the weakest first.
const (
	Allow     Action = "allow"     // check the password, and settle
	Challenge Action = "challenge" // ask again with the solution of a CAPTCHA
	Delay     Action = "delay"     // wait for RetryAfter, and ask again
	Deny      Action = "deny"      // do not check the password
)

var actionWords = [...]Action{allow: Allow, challenge: Challenge, delay: Delay, deny: Deny}

// Reason is why an attempt was not allowed, for operators: whoever tries to log in must not learn which counter it was. Closed set.
type Reason string

// The reasons, beside those of rules: what they count, and "_failures".
const (
	ReasonInFlight       Reason = "in_flight"       // as many attempts as are left are under way
	ReasonBanned         Reason = "banned"          // the address is
	ReasonCaptchaRefused Reason = "captcha_refused" // the solution was none
	// ReasonTooManySolutions: the address has sent so many that no more are looked at for a while.
	ReasonTooManySolutions Reason = "too_many_solutions"
)

func reasonOf(r *rule) Reason {
	if r.distinct {
		return Reason(r.Count)
	}
	return Reason(r.Count) + "_failures"
}

// A Decision says whether an attempt may go on. It is a plain value.
type Decision struct {
	Action     Action
	Reason     Reason        // empty: allowed
	Rule       string        // that decided, or empty
	RetryAfter time.Duration // Delay, Deny: when to ask again. Challenge: until none is needed. 0: nobody knows
	// ID names the attempt that was reserved. Empty: none was.
	ID string
	// Challenge is what the solution of a challenge has to be bound to.
	Challenge captcha.Binding
	// Shadow is the rule in shadow that would have acted, or empty.
	Shadow string
	// Degraded: the store was away, and this process decided by its own counts and half the limits.
	Degraded bool
}

// Reserve decides an attempt and, if it is allowed, counts it as a failure that Settle may take back. One that is not settled within 30 seconds
// has failed. It returns within Options.Timeout after the CAPTCHA was verified. The error is ErrInvalid, or ErrUnavailable if a solution could
// not be verified; a store that is away is no error.
func (t *Throttle) Reserve(ctx context.Context, a Attempt) (Decision, error) {
	return t.decide(ctx, opReserve, a)
}

// Check says how Reserve would decide now, without a CAPTCHA, and counts nothing. That it says Allow is no leave to check a password: of attempts that
// only ask here, any number may be told so at once.
func (t *Throttle) Check(ctx context.Context, a Attempt) (Decision, error) {
	return t.decide(ctx, opCheck, a)
}

// Report counts a failure that happened without a reservation, and decides what comes next. While the attempt is denied nothing is counted.
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
		t.opts.Decided(modes[do], &d)
		return d, nil
	}
	d, err := t.ask(ctx, p, &a)
	if err != nil {
		return Decision{}, err
	}
	t.opts.Decided(modes[do], &d)
	return d, nil
}

// A prepared attempt is one in the terms of the store.
type prepared struct {
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
		return nil, fmt.Errorf("%w: the address is missing, should be the client's", ErrInvalid)
	case len(a.ID) > 255:
		return nil, fmt.Errorf("%w: ID has %d bytes, should have at most 255", ErrInvalid, len(a.ID))
	}
	p := &prepared{}
	p.id = attemptID{name: t.keys.name(typed), ip: a.IP.Unmap().WithZone(""), factor: factor, renew: true}
	if a.Device != "" {
		if device, ends, ok := t.keys.parseDevice(a.Device, p.id.name, factor); ok && time.Until(ends) > 0 {
			p.id.device, p.id.renew = device, time.Until(ends) < t.opts.DeviceLife/2
		}
	}
	p.call = &call{op: do}
	p.call.keys, p.call.name = t.keys.keys(p.id.name, p.id.ip, p.id.device, factor)
	if a.ID == "" {
		rand.Read(p.id.nonce[:])
	} else {
		p.id.nonce = t.keys.hash("request", modes[do], a.ID, string(p.id.name[:]), admission.Address(a.IP), factor, a.Device, a.Captcha)
		if do != opCheck {
			p.call.record = t.keys.record("q", p.id.nonce)
		}
	}
	return p, nil
}

// ask lets a solution be used up only where it opens something: who has to wait keeps it.
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
		err := t.opts.Captcha.Verify(ctx, a.Captcha, t.binding(p, d.Challenge.Risk-1), a.IP)
		switch {
		case errors.Is(err, captcha.ErrRefused), errors.Is(err, captcha.ErrFellBack):
			if p.call.record != "" { // it may have been used by the same request, sent twice at the same time
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

// solutionAllowed reports whether the address may have one more solution verified, or how long it has to wait.
func (t *Throttle) solutionAllowed(ctx context.Context, ip netip.Addr) (wait time.Duration, ok bool) {
	if t.opts.Solutions == nil {
		return 0, true
	}
	return t.opts.Solutions(ctx, ip)
}

func (t *Throttle) binding(p *prepared, risk int) captcha.Binding {
	subject := t.keys.hash("challenge", string(p.id.name[:]), admission.Address(p.id.ip), p.id.factor)
	return captcha.Binding{Purpose: Purpose, Subject: subject.String(), Risk: min(max(risk, 0), captcha.MaxRisk)}
}

// put puts an attempt to the store, or where that is away to this process. The answer is known if the attempt's id had one before.
func (t *Throttle) put(ctx context.Context, p *prepared, do op, solved bool) (d Decision, known bool, err error) {
	ladders := t.ladders()
	l, c := ladders.full, *p.call
	c.op, c.ladder, c.solved = do, l, solved
	re, err := t.askStore(ctx, &c)
	degraded := err != nil
	if degraded {
		if errors.Is(err, admission.ErrTooMany) { // a crowd is no outage, and would be counted twice
			return d, false, err
		}
		l = ladders.local
		own := c // which the store may still be reading
		own.ladder = l
		if re, err = t.local.do(ctx, &own); err != nil {
			return d, false, err
		}
	}
	d = Decision{Action: actionWords[min(re.action, deny)], RetryAfter: micros(re.left), Degraded: degraded}
	if re.shadow >= 0 {
		d.Shadow = l.rules[re.shadow].name
	}
	if re.rule >= 0 {
		r := &l.rules[re.rule]
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
		id.at, id.inLane, id.inLocal = re.at, re.device, degraded
		d.ID = t.keys.attemptToken(&id)
	}
	t.tripped(ctx, l, &p.id, re.trips, re.at)
	return d, re.known, nil
}

var errResting = errors.New("the store did not answer lately")

// askStore asks it for a decision, unless it has not answered within the last second.
func (t *Throttle) askStore(ctx context.Context, c *call) (reply, error) {
	if time.Now().UnixNano() < t.resting.Load() {
		return reply{}, errResting
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.opts.Timeout)
	defer cancel()
	re, err := t.store.do(within, c)
	switch {
	case errors.Is(err, admission.ErrTooMany), errors.Is(err, errFull): // to whom it knows it answers
	case err != nil:
		t.resting.Store(time.Now().Add(restFor).UnixNano())
		if !t.away.Swap(true) {
			t.opts.Logger.WarnContext(ctx, "login: the store does not answer, this process counts by itself", "error", err)
		}
	case t.away.Swap(false):
		t.opts.Logger.InfoContext(ctx, "login: the store answers again")
	}
	return re, err
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
