package admission

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

const (
	defaultNamespace = "tidegate"
	defaultTimeout   = 150 * time.Millisecond
)

// Options of a Gate.
type Options struct {
	// Secret keys the hashes that stand for subjects in the store. Required, 16 bytes or more; all processes that share a
	// store need the same. Another secret starts all counts anew.
	Secret []byte
	// Namespace begins every key. Default "tidegate"; 1 to 64 of A-Z a-z 0-9 . _ : -
	Namespace string
	// Timeout is the longest that a decision takes. Zero means 150 ms.
	Timeout time.Duration
	// LocalShare is the part of a limit that this process admits by itself while the store is away, for rules with
	// `on_store_error: local`; more than 0, at most 1. At least one unit is admitted. Zero means one part for each process that
	// was alive when the store was last heard of.
	LocalShare float64
	// DenyCache is how many counters are remembered that have just refused. Zero means 65,536, less than zero none.
	DenyCache int
	// History is told of every ban, by Run. Nil: nobody is.
	History BanHistory
	// Now is the clock by which the gate remembers denials and bans; nil is the real time. For tests, beside a store with the same clock.
	Now func() time.Time
	// Logger gets what Run meets with. Nil means slog.Default().
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Namespace == "" {
		o.Namespace = defaultNamespace
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// A Gate decides requests by rules. Make it with New; the zero value is not usable. It is safe for concurrent use.
type Gate struct {
	store   Store
	keys    *keyring
	opts    Options
	process string // a name of its own
	start   time.Time
	inForce *InForce
	denied  *denyCache // nil: none
	bans    *banList
	breaker breaker
	asked   manyCounter
	local   *MemoryStore // counts while the store is away
}

// New returns a gate that applies rules to counts kept in store. It starts nothing and asks the store nothing: see Run.
func New(store Store, rules *Rules, opts Options) (*Gate, error) {
	if store == nil || rules == nil {
		return nil, errors.New("admission: New needs a store and rules")
	}
	opts = opts.withDefaults()
	if opts.Timeout < 0 {
		return nil, fmt.Errorf("admission: Options.Timeout is %v, should be positive", opts.Timeout)
	}
	if !(opts.LocalShare >= 0 && opts.LocalShare <= 1) {
		return nil, fmt.Errorf("admission: Options.LocalShare is %v, should be more than 0 and at most 1", opts.LocalShare)
	}
	keys, err := newKeyring(opts.Namespace, opts.Secret)
	if err != nil {
		return nil, err
	}
	g := &Gate{
		store: store, keys: keys, opts: opts, process: rand.Text(), start: opts.Now(), bans: newBanList(),
		inForce: NewInForce(rules, opts.Logger), local: NewMemoryStore(MemoryOptions{}),
	}
	if opts.DenyCache >= 0 {
		g.denied = newDenyCache(opts.DenyCache)
	}
	return g, nil
}

// Rules returns the rules in force.
func (g *Gate) Rules() *Rules { return g.inForce.Rules() }

// SetRules puts other rules into force, from the next request on. Counts of windows that they share with the old ones go on.
// Run follows the files of the rules that are in force when it begins.
func (g *Gate) SetRules(rules *Rules) { g.inForce.set(rules) }

// Reload reads the files again that the rules in force came from, and returns the rules then in force. After an error, which is
// that of LoadRules, those are the old ones. Rules that were read from no file stay.
func (g *Gate) Reload() (*Rules, error) { return g.inForce.Reload() }

// now is the time by which this process remembers, in ns since the gate was made.
func (g *Gate) now() int64 { return int64(g.opts.Now().Sub(g.start)) }

// Charge decides req and counts it if it is admitted; a denied request is counted only by rules with `count_rejected`.
//
// It returns within Options.Timeout, or at ctx's deadline if that is sooner. That ctx is cancelled does not
// end it: the store may have counted the request already, so its answer is worth waiting for. A store that fails or takes
// longer gives a decision that is Degraded, or ErrUnavailable if a matching rule is `on_store_error: closed`.
// ErrInvalidRequest is returned for a request that cannot be decided as it stands.
func (g *Gate) Charge(ctx context.Context, req Request) (Decision, error) {
	return g.decide(ctx, Charge, req, nil)
}

// ChargeUnless is Charge, but a request that would be refused, also by a ban or a challenge, is excused if excused says so: it is then
// admitted, counts nowhere, not as a refusal either, and its decision names no rule. Excused is asked once, and only then, under the ctx
// of the decision. What is refused after all is counted as a refusal, for bans and for rules with count_rejected, by Run within a second.
func (g *Gate) ChargeUnless(ctx context.Context, req Request, excused func(context.Context) bool) (Decision, error) {
	var refused []refusedTally
	d, err := g.decide(ctx, Charge, req, &refused)
	if err != nil || d.Admitted {
		return d, err
	}
	if excused(ctx) {
		return Decision{Admitted: true, Action: ActionAllow, Limit: Unlimited, Remaining: Unlimited, Version: d.Version}, nil
	}
	for _, r := range refused {
		g.denied.refuse(r.denial, r.cost)
	}
	return d, nil
}

// Check decides req as Charge does and counts nothing. Remaining and ResetAfter are those of now, before req.
func (g *Gate) Check(ctx context.Context, req Request) (Decision, error) {
	return g.decide(ctx, Check, req, nil)
}

// decide appends what a refusal counts to later instead of counting it, if that is not nil and the gate remembers denials.
func (g *Gate) decide(ctx context.Context, mode Mode, req Request, later *[]refusedTally) (Decision, error) {
	if err := req.validate(); err != nil {
		return Decision{}, err
	}
	req = req.withDefaults()
	rules := g.Rules()
	if ban, left, ok := g.banned(rules, &req); ok {
		return refusedByBan(ban, left, rules.version), nil
	}
	p := plans.Get().(*plan)
	defer p.release()
	if err := rules.plan(p, matching, &req); err != nil {
		return Decision{}, err
	}
	if req.ID == "" { // or else it may be the resend of one that was admitted
		if d, ok := g.refuseAgain(mode, p, rules, later); ok {
			return d, nil
		}
	}
	tallies, verdicts := p.tallies(g.keys, req.ID != "")
	switch {
	case p.refused && (!rules.first || len(tallies) == 0):
		return rules.conclude(refusals(verdicts)), nil
	case len(tallies) == 0:
		return rules.conclude(verdicts), nil
	case p.refused: // perhaps by a rule above; it is counted by none
		mode = Check
	}
	g.noteGenerations(p, tallies)
	call := Call{Mode: mode, Tallies: tallies, Room: p.room}
	if req.ID != "" {
		call.Request = g.keys.request(req.ID)
	}
	if mode != Charge || g.denied == nil {
		later = nil
	}
	asked := call
	if later != nil {
		asked.Tallies = refusingUncounted(tallies)
	}
	deadline, _ := g.deadline(ctx)
	counts, err := g.ask(ctx, asked)
	if err != nil {
		return g.decideAlone(ctx, call, p, verdicts, rules, err)
	}
	p.room = counts
	p.read(verdicts, counts)
	for i := range counts {
		if counts[i].Struck {
			c := &p.claims[p.of[i]]
			g.ban(ctx, time.Until(deadline), c, &verdicts[p.of[i]], p.target(c))
		}
	}
	d := rules.conclude(verdicts)
	d.At = counts[0].At
	switch {
	case !d.Admitted:
		g.remember(p, tallies, counts, verdicts)
		if later != nil {
			*later = append(*later, p.refusedTallies(tallies, counts)...)
		}
	case mode == Charge:
		d.receipt = newReceipt(call, counts)
	}
	return d, nil
}

// deadline is when a decision asked for now has to be there. own is false if that is ctx's.
func (g *Gate) deadline(ctx context.Context) (at time.Time, own bool) {
	at = time.Now().Add(g.opts.Timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(at) {
		return d, false
	}
	return at, true
}

// ask puts a call to the store under the gate's own deadline, unless it has not answered lately.
func (g *Gate) ask(ctx context.Context, call Call) ([]Count, error) {
	if !g.breaker.allows(g.now()) {
		return nil, errResting
	}
	deadline, own := g.deadline(ctx)
	p := &patience{Context: ctx, until: deadline}
	defer p.end(context.Canceled)
	if call.Mode == Charge {
		g.asked.add()
	}
	counts, err := g.store.Decide(p, call)
	switch {
	case err == nil, errors.Is(err, ErrTooMany): // a crowd is no outage
		g.breaker.succeeded()
	case own || p.Err() == nil: // a caller who gives no time says nothing about the store
		g.breaker.failed(g.now())
	}
	return counts, err
}
