package admission

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
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
	return o
}

// A Gate decides requests by rules. Make it with New; the zero value is not usable. It is safe for concurrent use.
type Gate struct {
	store   Store
	keys    *keyring
	opts    Options
	process string // a name of its own
	start   time.Time
	rules   atomic.Pointer[Rules]
	denied  *denyCache // nil: none
	bans    *banList
	breaker breaker
	local   *MemoryStore // counts while the store is away
	failed  atomic.Pointer[error]
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
		store: store, keys: keys, opts: opts, process: rand.Text(), start: time.Now(), bans: newBanList(),
		local: NewMemoryStore(MemoryOptions{}),
	}
	if opts.DenyCache >= 0 {
		g.denied = newDenyCache(opts.DenyCache)
	}
	g.rules.Store(rules)
	return g, nil
}

// Rules returns the rules in force.
func (g *Gate) Rules() *Rules { return g.rules.Load() }

// SetRules puts other rules into force, from the next request on. Counts of windows that they share with the old ones go on.
func (g *Gate) SetRules(rules *Rules) { g.rules.Store(rules) }

// now is the time by which this process remembers, in ns since the gate was made.
func (g *Gate) now() int64 { return int64(time.Since(g.start)) }

// Charge decides req and counts it if it is admitted; a denied request is counted only by rules with `count_rejected`.
//
// It returns within Options.Timeout, or at ctx's deadline if that is sooner. That ctx is cancelled does not
// end it: the store may have counted the request already, so its answer is worth waiting for. A store that fails or takes
// longer gives a decision that is Degraded, or ErrUnavailable if a matching rule is `on_store_error: closed`.
// ErrInvalidRequest is returned for a request that cannot be decided as it stands.
func (g *Gate) Charge(ctx context.Context, req Request) (Decision, error) {
	return g.decide(ctx, Charge, req)
}

// Check decides req as Charge does and counts nothing. Remaining and ResetAfter are those of now, before req.
func (g *Gate) Check(ctx context.Context, req Request) (Decision, error) {
	return g.decide(ctx, Check, req)
}

func (g *Gate) decide(ctx context.Context, mode Mode, req Request) (Decision, error) {
	if err := req.validate(); err != nil {
		return Decision{}, err
	}
	req = req.withDefaults()
	rules := g.rules.Load()
	if ban, left, ok := g.banned(rules, &req); ok {
		return refusedByBan(ban, left, rules.version), nil
	}
	p := plans.Get().(*plan)
	defer p.release()
	if err := rules.plan(p, matching, &req); err != nil {
		return Decision{}, err
	}
	if req.ID == "" { // or else it may be the resend of one that was admitted
		if d, ok := g.refuseAgain(mode, p, rules.version); ok {
			return d, nil
		}
	}
	tallies, verdicts, of := p.tallies(g.keys, req.ID != "")
	if p.refused || len(tallies) == 0 {
		return conclude(verdicts, rules.version), nil
	}
	generations := g.generations(tallies)
	call := Call{Mode: mode, Tallies: tallies}
	if req.ID != "" {
		call.Request = g.keys.request(req.ID)
	}
	asked := g.now()
	counts, err := g.ask(ctx, call)
	if err != nil {
		return g.decideAlone(ctx, call, p, verdicts, of, rules.version, err)
	}
	p.read(verdicts, of, counts)
	for i := range counts {
		if counts[i].Struck {
			left := g.opts.Timeout - time.Duration(g.now()-asked)
			g.ban(ctx, left, &p.claims[of[i]], &verdicts[of[i]], p.target(&p.claims[of[i]]))
		}
	}
	d := conclude(verdicts, rules.version)
	d.At = counts[0].At
	switch {
	case !d.Admitted:
		g.remember(p, tallies, of, counts, verdicts, generations)
	case mode == Charge:
		d.receipt = newReceipt(call, counts)
	}
	return d, nil
}

// read puts what the store counted into verdicts.
func (p *plan) read(verdicts []Verdict, of []int, counts []Count) {
	for i := range counts {
		c, v := &counts[i], &verdicts[of[i]]
		v.Admitted, v.Reason, v.Action = true, "", ActionAllow
		v.Remaining, v.RetryAfter, v.ResetAfter = c.Remaining, c.RetryAfter, c.ResetAfter
		if c.Reason != "" {
			v.refuse(c.Reason, p.claims[of[i]].rule)
		}
	}
}

// ask puts a call to the store under the gate's own deadline, unless it has not answered lately.
func (g *Gate) ask(ctx context.Context, call Call) ([]Count, error) {
	if !g.breaker.allows(g.now()) {
		return nil, errResting
	}
	deadline := time.Now().Add(g.opts.Timeout)
	own := true
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline, own = d, false
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	counts, err := g.store.Decide(ctx, call)
	switch {
	case err == nil, errors.Is(err, ErrFull):
		g.breaker.succeeded()
	case own || ctx.Err() == nil: // a caller who gives no time says nothing about the store
		g.breaker.failed(g.now())
	}
	return counts, err
}

// decideAlone decides without the store, which failed with cause.
func (g *Gate) decideAlone(ctx context.Context, call Call, p *plan, verdicts []Verdict, of []int, version string, cause error) (Decision, error) {
	// A cost above the limit needs no store.
	final := slices.DeleteFunc(slices.Clone(verdicts), func(v Verdict) bool { return v.Admitted || v.Shadow })
	if len(final) > 0 {
		return conclude(final, version), nil
	}
	var (
		local  = Call{Mode: call.Mode, Request: call.Request}
		places []int
	)
	for i, at := range of {
		r := p.claims[at].rule
		switch {
		case r.shadow:
		case r.onStoreError == failClosed:
			return Decision{}, fmt.Errorf("%w: %s: %w", ErrUnavailable, call.Mode, cause)
		case r.onStoreError == failLocal:
			local.Tallies = append(local.Tallies, g.shareOf(call.Tallies[i]))
			places = append(places, at)
		}
	}
	var alone []Verdict
	if len(places) > 0 {
		counts, err := g.local.Decide(ctx, local)
		if err != nil {
			return Decision{}, fmt.Errorf("%w: %s: %w", ErrUnavailable, call.Mode, err)
		}
		p.read(verdicts, places, counts)
		for i, at := range places {
			verdicts[at].Limit = local.Tallies[i].Limit
			alone = append(alone, verdicts[at])
		}
	}
	d := conclude(alone, version)
	d.Degraded = true
	return d, nil
}

// shareOf makes t this process' part of it. Nobody is banned by a part of a limit.
func (g *Gate) shareOf(t Tally) Tally {
	t.Limit, t.Burst, t.Strikes = g.share(t.Limit), g.share(t.Burst), nil
	if t.Base != nil {
		base := *t.Base
		base.Limit = g.share(base.Limit)
		t.Base = &base
	}
	return t
}

// share is this process' part of a limit.
func (g *Gate) share(limit int) int {
	if limit <= 0 {
		return limit
	}
	share := g.opts.LocalShare
	if share == 0 {
		share = 1 / float64(max(1, g.bans.processes()))
	}
	return max(1, int(float64(limit)*share))
}

// generations returns those of the tallies' subjects, to be taken before the store is asked.
func (g *Gate) generations(tallies []Tally) []uint32 {
	if g.denied == nil {
		return nil
	}
	out := make([]uint32, len(tallies))
	for i := range tallies {
		out[i] = g.denied.generation(tallies[i].Subject).Load()
	}
	return out
}

// refuseAgain refuses what the store has just refused.
func (g *Gate) refuseAgain(mode Mode, p *plan, version string) (Decision, bool) {
	if g.denied == nil || len(p.claims) == 0 {
		return Decision{}, false
	}
	now := g.now()
	var verdicts []Verdict
	var at time.Time
	for i := range p.claims {
		c := &p.claims[i]
		if !c.asked() || c.rule.shadow {
			continue
		}
		d := g.denied.find(denyKey{c.window, c.limit, g.denied.hash(p.identity(c))}, c.cost, now)
		if d == nil {
			continue
		}
		if mode == Charge {
			g.denied.refuse(d, c.cost)
		}
		v := d.verdict
		passed := time.Duration(now - d.at)
		v.RetryAfter, v.ResetAfter = max(0, v.RetryAfter-passed), max(0, v.ResetAfter-passed)
		at = d.storeTime.Add(passed)
		verdicts = append(verdicts, v)
	}
	if verdicts == nil {
		g.denied.misses.Add(1)
		return Decision{}, false
	}
	d := conclude(verdicts, version)
	d.At = at
	return d, true
}

// remember keeps what the store refused for the next that ask the same.
func (g *Gate) remember(p *plan, tallies []Tally, of []int, counts []Count, verdicts []Verdict, generations []uint32) {
	if g.denied == nil {
		return
	}
	now := g.now()
	for i := range counts {
		c, t := &p.claims[of[i]], &tallies[i]
		if counts[i].Reason == "" || t.Shadow || verdicts[of[i]].Action == ActionBan { // a ban is remembered as such, and can be lifted
			continue
		}
		length := denyFor
		if counts[i].Reason == RateLimited {
			length = min(length, counts[i].RetryAfter)
		}
		d := &denial{
			cost: t.Cost, at: now, until: now + int64(length), verdict: verdicts[of[i]], storeTime: counts[i].At,
			generation: generations[i], rule: c.rule, target: p.target(c), tally: *t, counts: t.CountRejected || t.Strikes != nil,
		}
		g.denied.add(denyKey{c.window, c.limit, g.denied.hash(p.identity(c))}, d)
	}
}
