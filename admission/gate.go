package admission

import (
	"context"
	"errors"
	"fmt"
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
}

func (o Options) withDefaults() Options {
	if o.Namespace == "" {
		o.Namespace = defaultNamespace
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	return o
}

// A Gate decides requests by rules. Make it with New; the zero value is not usable. It is safe for concurrent use.
type Gate struct {
	store   Store
	rules   *Rules
	keys    *keyring
	timeout time.Duration
}

// New returns a gate that applies rules to counts kept in store. It starts nothing and asks the store nothing.
func New(store Store, rules *Rules, opts Options) (*Gate, error) {
	if store == nil || rules == nil {
		return nil, errors.New("admission: New needs a store and rules")
	}
	opts = opts.withDefaults()
	if opts.Timeout < 0 {
		return nil, fmt.Errorf("admission: Options.Timeout is %v, should be positive", opts.Timeout)
	}
	keys, err := newKeyring(opts.Namespace, opts.Secret)
	if err != nil {
		return nil, err
	}
	return &Gate{store: store, rules: rules, keys: keys, timeout: opts.Timeout}, nil
}

// Rules returns the rules in force.
func (g *Gate) Rules() *Rules { return g.rules }

// Charge decides req and counts it if it is admitted; a denied request is counted nowhere.
//
// It returns within Options.Timeout, or at ctx's deadline if that is sooner. That ctx is cancelled does not
// end it: the store may have counted the request already, so its answer is worth waiting for. A store that fails or takes
// longer gives an admission that is Degraded, or ErrUnavailable if a matching rule is `on_store_error: closed`.
// ErrInvalidRequest is returned for a cost out of bounds.
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
	p := g.plan(req.withDefaults())
	if p.refused != nil {
		return conclude(p.refused, g.rules.version), nil
	}
	if len(p.tallies) == 0 {
		return conclude(p.verdicts, g.rules.version), nil
	}
	counts, err := g.ask(ctx, mode, p.tallies)
	switch {
	case err != nil && p.closed:
		return Decision{}, fmt.Errorf("%w: %s: %w", ErrUnavailable, mode, err)
	case err != nil:
		d := conclude(nil, g.rules.version)
		d.Degraded = true
		return d, nil
	}
	for i, c := range counts {
		v := &p.verdicts[p.of[i]]
		v.Admitted, v.Reason = c.Reason == "", c.Reason
		v.Remaining, v.RetryAfter, v.ResetAfter = c.Remaining, c.RetryAfter, c.ResetAfter
	}
	return conclude(p.verdicts, g.rules.version), nil
}

// ask puts tallies to the store under the gate's own deadline.
func (g *Gate) ask(ctx context.Context, mode Mode, tallies []Tally) ([]Count, error) {
	deadline := time.Now().Add(g.timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	return g.store.Decide(ctx, mode, tallies)
}

// A plan is what the rules ask of the store for one request, and what they say without it.
type plan struct {
	verdicts []Verdict
	tallies  []Tally
	of       []int     // the verdict of each tally
	refused  []Verdict // windows whose whole limit is less than the cost: final, also while the store is away
	closed   bool
}

func (g *Gate) plan(req Request) plan {
	var (
		p        plan
		segments [16]string
		parts    [8]string
	)
	path := appendSegments(segments[:0], req.Route)
	for i := range g.rules.rules {
		r := &g.rules.rules[i]
		if !r.match.holds(&req, path) {
			continue
		}
		identity, ok := r.identify(parts[:0], &req)
		if !ok {
			continue
		}
		subject := g.keys.subject(identity...)
		for _, w := range r.windows {
			p.add(r, w, subject, g.keys.window(subject, w.id), &req)
		}
	}
	return p
}

func (p *plan) add(r *rule, w window, subject, key string, req *Request) {
	cost := r.cost * req.Cost
	v := Verdict{Rule: r.name, Window: w.length, Limit: w.limit.of(req.Tier), Shadow: r.shadow, Admitted: true}
	switch {
	case v.Limit == Unlimited:
		v.Remaining = Unlimited
	case cost > v.Limit:
		v.Admitted, v.Reason = false, CostAboveLimit
		if !r.shadow {
			p.refused = append(p.refused, v)
		}
	default:
		p.closed = p.closed || r.closed && !r.shadow
		p.of = append(p.of, len(p.verdicts))
		p.tallies = append(p.tallies, Tally{
			Key: key, Subject: subject, Limit: v.Limit, Window: w.length, Cost: cost, Shadow: r.shadow,
		})
	}
	p.verdicts = append(p.verdicts, v)
}
