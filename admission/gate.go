package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/breaker"
	"github.com/tidegate/tidegate/internal/lazydeadline"
	"github.com/tidegate/tidegate/redisclient"
)

const (
	defaultNamespace = "tidegate"
	defaultTimeout   = 150 * time.Millisecond
)

// Options of a Gate.
type Options struct {
	// Secret is the key of the hashes that identify subjects in the store. Required, 16 bytes or more. All processes that share a store
	// need the same one. Another secret starts all counts from zero.
	Secret []byte
	// Namespace is the prefix of every key. Default "tidegate"; 1 to 64 of A-Z a-z 0-9 . _ : -
	Namespace string
	// Timeout is the maximum time for a decision. Zero means 150 ms.
	Timeout time.Duration
	// LocalShare is the fraction of a limit that this process admits by itself while the store is unavailable, for rules with
	// `on_store_error: local`; more than 0, at most 1. At least one unit is admitted. Zero means 1/n, where n is the number of processes
	// alive at the last reply of the store.
	LocalShare float64
	// DenyCache is the maximum number of recent denials in memory. Zero means 65,536, a negative value disables the cache.
	DenyCache int
	// History receives every ban from Run. Nil means none.
	History bans.History
	// Now is the clock for remembered denials and bans; nil means real time. For tests, together with a store that uses the same clock.
	Now func() time.Time
	// Logger gets the messages of Run. Nil means slog.Default().
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

const (
	breakAfter = 5                      // consecutive failures of the store until requests no longer wait for it
	breakFor   = 500 * time.Millisecond // until one request tries again
)

// A Gate decides requests by rules. Make it with New; the zero value is not usable. It is safe for concurrent use.
type Gate struct {
	store   store.Store
	keys    *keyring
	opts    Options
	start   time.Time
	live    *rules.Live
	denied  *denyCache
	bans    *bans.List
	breaker *breaker.Breaker
	asked   manyCounter
	local   *memorystore.Store // counts while the store is unavailable
}

// Rules returns the set of these rules. New returns their errors. To read rules from a file, see rules.Load.
func Rules(list ...rules.Rule) *rules.Set { return rules.Of(list...) }

// New returns a gate that applies rules to counts kept in Redis. The caller closes rdb. New starts no goroutine and sends nothing: see Run.
func New(rdb *redisclient.Client, set *rules.Set, opts Options) (*Gate, error) {
	if rdb == nil {
		return nil, errors.New("admission: New needs a client")
	}
	return NewWithStore(redisstore.New(rdb.Batched), set, opts)
}

// NewWithStore is New for counts kept in s, such as a memorystore.Store.
func NewWithStore(s store.Store, set *rules.Set, opts Options) (*Gate, error) {
	if s == nil || set == nil {
		return nil, errors.New("admission: NewWithStore needs a store and rules")
	}
	if err := set.Err(); err != nil {
		return nil, fmt.Errorf("admission: %w", err)
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
		store: s, keys: keys, opts: opts, start: opts.Now(),
		live: rules.NewLive(set, opts.Logger), breaker: breaker.New(breakAfter, breakFor), local: memorystore.New(memorystore.Options{}),
		denied: newDenyCache(opts.DenyCache),
	}
	g.bans = bans.NewList(reportingBanStore{s.Bans(), g.breaker}, bans.Options{
		Namespace: opts.Namespace, Timeout: opts.Timeout, Allow: func() bans.Allowlist { return g.Rules() }, History: opts.History, Now: opts.Now,
		Logger: opts.Logger,
	})
	return g, nil
}

// Rules returns the rules in force.
func (g *Gate) Rules() *rules.Set { return g.live.Rules() }

// SetRules puts other rules into force, from the next request on. Windows that both versions have keep their counts. Run follows the
// files of the rules that are in force when it starts. The error is that of Rules; the old rules then stay in force.
func (g *Gate) SetRules(set *rules.Set) error { return g.live.Set(set) }

// Reload reads the files of the rules in force again and returns the rules then in force. On error, which is that of rules.Load, the old
// rules stay in force. Rules that were not read from a file stay unchanged.
func (g *Gate) Reload() (*rules.Set, error) { return g.live.Reload() }

// now is the time by which this process expires denials and bans, in ns since the gate was made.
func (g *Gate) now() int64 { return int64(g.opts.Now().Sub(g.start)) }

// Charge decides req and counts it if it is admitted; a denied request is counted only by rules with `count_rejected`.
//
// It returns within Options.Timeout, or at ctx's deadline if that is sooner. Cancelling ctx does not end the call, because the store may
// have counted the request already. If the store fails or takes longer, the decision is Degraded, or the error is ErrUnavailable if a
// matching rule is `on_store_error: closed`. ErrInvalidRequest means that the request has an invalid value.
func (g *Gate) Charge(ctx context.Context, req Request) (Decision, error) {
	return g.decide(ctx, store.Charge, req, nil)
}

// ChargeUnless is Charge with an exemption: if req would be refused, also by a ban or a challenge, and excused returns true, req is
// admitted. It is then counted nowhere, not even as a refusal, and its decision names no rule. excused is called at most once, only for a
// refused request, with ctx. If it returns false, Run counts the refusal within a second, for bans and for rules with count_rejected.
func (g *Gate) ChargeUnless(ctx context.Context, req Request, excused func(context.Context) bool) (Decision, error) {
	var refused []refusedTally
	d, err := g.decide(ctx, store.Charge, req, &refused)
	if err != nil || d.Admitted {
		return d, err
	}
	if excused(ctx) {
		return Decision{Admitted: true, Action: rules.Allow, Limit: rules.Unlimited, Remaining: rules.Unlimited, Version: d.Version}, nil
	}
	for _, r := range refused {
		g.denied.refuse(r.denial, r.cost)
	}
	return d, nil
}

// Check decides req as Charge does and counts nothing. Remaining and ResetAfter are the current values, before req.
func (g *Gate) Check(ctx context.Context, req Request) (Decision, error) {
	return g.decide(ctx, store.Check, req, nil)
}

// decide appends refusals to later instead of counting them, if later is not nil.
func (g *Gate) decide(ctx context.Context, mode store.Mode, req Request, later *[]refusedTally) (Decision, error) {
	if err := validate(&req); err != nil {
		return Decision{}, err
	}
	req = withDefaults(req)
	set := g.Rules()
	if ban, left := g.banned(&req); ban != nil {
		return refusedByBan(ban, left, set.Version()), nil
	}
	p := plans.Get().(*plan)
	defer p.release()
	if err := p.fill(set.Plan, req); err != nil {
		return Decision{}, err
	}
	if req.ID == "" { // with an ID it may be a resend of an admitted request
		if d, ok := g.refuseAgain(mode, p, set, later); ok {
			return d, nil
		}
	}
	tallies, verdicts := p.tallies(g.keys, req.ID != "")
	switch {
	case p.Refused && (!set.FirstDecides() || len(tallies) == 0):
		return conclude(set, refusals(verdicts)), nil
	case len(tallies) == 0:
		return conclude(set, verdicts), nil
	case p.Refused: // an earlier rule may refuse first; nothing is counted
		mode = store.Check
	}
	g.noteGenerations(p, tallies)
	call := store.Call{Mode: mode, Tallies: tallies, Room: p.room}
	if req.ID != "" {
		call.Request = g.keys.request(req.ID)
	}
	if mode != store.Charge {
		later = nil
	}
	asked := call
	if later != nil {
		asked.Tallies = refusingUncounted(tallies)
	}
	deadline, own := g.deadline(ctx)
	counts, err := g.askUntil(ctx, asked, deadline, own)
	if err != nil {
		return g.decideDegraded(ctx, call, p, verdicts, set, err)
	}
	p.room = counts
	p.read(verdicts, counts)
	for i := range counts {
		if counts[i].Struck {
			c := &p.Checks[p.of[i]]
			g.ban(ctx, time.Until(deadline), c, &verdicts[p.of[i]], p.target(c))
		}
	}
	d := conclude(set, verdicts)
	d.At = counts[0].At
	switch {
	case !d.Admitted:
		if req.ID == "" { // a repeated ID may return an earlier request's result, which is outdated
			g.remember(p, tallies, counts, verdicts)
		}
		if later != nil {
			*later = append(*later, p.refusedTallies(tallies, counts)...)
		}
	case mode == store.Charge:
		d.receipt = newReceipt(call, counts)
	}
	return d, nil
}

// deadline returns the deadline of a decision that starts now. own is false if it is ctx's deadline.
func (g *Gate) deadline(ctx context.Context) (at time.Time, own bool) {
	at = time.Now().Add(g.opts.Timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(at) {
		return d, false
	}
	return at, true
}

// ask calls the store with the gate's own deadline, unless the breaker is open.
func (g *Gate) ask(ctx context.Context, call store.Call) ([]store.Count, error) {
	deadline, own := g.deadline(ctx)
	return g.askUntil(ctx, call, deadline, own)
}

// askUntil is ask with a result of g.deadline.
func (g *Gate) askUntil(ctx context.Context, call store.Call, deadline time.Time, own bool) ([]store.Count, error) {
	if !g.breaker.Allows() {
		return nil, errResting
	}
	p := lazydeadline.Detached(ctx, deadline) // with a memorystore.Store, an ordinary context would take a fifth of the time of a decision
	defer p.End()
	if call.Mode == store.Charge {
		g.asked.add()
	}
	counts, err := g.store.Decide(p, call)
	switch {
	case err == nil, errors.Is(err, store.ErrTooMany): // overload is not an outage
		g.breaker.Succeeded()
	case own || p.Err() == nil: // a deadline that the caller set is no evidence of an outage
		g.breaker.Failed()
	}
	return counts, err
}
