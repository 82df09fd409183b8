package koala

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/internal/dialects"
)

// DefaultZone is the default zone for counters of 86400 seconds, which begin at midnight.
const DefaultZone = "Asia/Shanghai"

// ErrUnknownRule means that no rule has this return number.
var ErrUnknownRule = errors.New("koala: no rule has this return number")

// Options of a Service. Path and Secret are required.
type Options struct {
	// Path of a rule file, or of a koala.conf that names one.
	Path string
	// Zone of calendar days. Nil: DefaultZone.
	Zone *time.Location
	// Secret, Namespace and Timeout are as in admission.Options. All keys begin with the namespace and ":koala".
	Secret    []byte
	Namespace string
	Timeout   time.Duration
	// Alive checks the store. Nil: the store is in this process and always available.
	Alive func(context.Context) error
	// Decided is called with every decision that charged, or tried to. It must be safe for concurrent use, and must not retain its
	// arguments. Nil: none.
	Decided func(req *admission.Request, d *admission.Decision, took time.Duration)
	// Logger gets warnings, errors of reloads, and the daily counters. Nil: slog.Default().
	Logger *slog.Logger
}

// A Service decides by a Koala rule file. Make it with New; it is safe for concurrent use.
type Service struct {
	opts     Options
	gate     *admission.Gate
	counting dialects.Counting[admission.Request] // of gate
	// The policy in force first, followed by earlier ones, under which current requests may have been decided.
	known  atomic.Pointer[[]*policy]
	day    *tallies
	warned []string // warnings about the files as last read; used by load
}

// New reads the rule file and returns a service that keeps its counts in store. The error is about the file, with line number and text.
func New(store store.Store, o Options) (*Service, error) {
	if o.Zone == nil {
		zone, err := time.LoadLocation(DefaultZone)
		if err != nil {
			return nil, fmt.Errorf("koala: %w", err)
		}
		o.Zone = zone
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Namespace == "" {
		o.Namespace = "tidegate"
	}
	s := &Service{opts: o, day: newTallies(o.Zone, o.Logger)}
	rules, err := s.load()
	if err != nil {
		return nil, err
	}
	s.gate, err = admission.NewWithStore(store, rules,
		admission.Options{Secret: o.Secret, Namespace: o.Namespace + ":koala", Timeout: o.Timeout, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	s.counting = dialects.CountingOf(s.gate).(dialects.Counting[admission.Request])
	return s, nil
}

// load reads the current files for the gate, which never calls it concurrently.
func (s *Service) load() (*rules.Set, error) {
	p, rules, err := load(s.opts.Path, s.opts.Zone)
	if err != nil {
		return nil, err
	}
	for _, text := range p.warnings {
		if !slices.Contains(s.warned, text) {
			s.opts.Logger.Warn("koala: " + text)
		}
	}
	s.warned = p.warnings
	known := []*policy{p}
	if old := s.known.Load(); old != nil {
		if (*old)[0].version == p.version {
			return rules.Reloadable(s.load, p.files...), nil
		}
		known = append(known, (*old)[:min(len(*old), remembered-1)]...)
	}
	s.known.Store(&known)
	return rules.Reloadable(s.load, p.files...), nil
}

// remembered is how many policies are kept: more than can come into force during a request.
const remembered = 64

// policy returns the policy in force.
func (s *Service) policy() *policy { return (*s.known.Load())[0] }

// decidedBy returns the current or a recent policy by its version.
func (s *Service) decidedBy(version string) (*policy, error) {
	for _, p := range *s.known.Load() {
		if p.version == version {
			return p, nil
		}
	}
	return nil, fmt.Errorf("koala: the rules of version %s are no longer known", version)
}

// Run follows the files until ctx ends; it then returns nil. The service also decides without it.
func (s *Service) Run(ctx context.Context) error { return s.gate.Run(ctx) }

// Stats returns the statistics of the gate that decides by the rules.
func (s *Service) Stats() admission.Stats { return s.gate.Stats() }

// Reload loads the current files. On error, which is that of New, the old policy stays in force.
func (s *Service) Reload() error {
	_, err := s.gate.Reload()
	return err
}

// Browse returns the result of the first rule that refuses the request or is direct. With write it counts the request, if it is admitted,
// in all rules that match it; otherwise it counts nothing. The error is ErrInvalid or admission.ErrUnavailable.
func (s *Service) Browse(ctx context.Context, params Params, write bool) (Result, error) {
	d, p, err := s.decide(ctx, params, write)
	if err != nil {
		return Result{}, err
	}
	result := p.fallback(len(d.Rules))
	var room [8]outcome
	outcomes := room[:0]
	for i := range d.Rules {
		r := p.named[d.Rules[i].Rule]
		answers := r.answers(&d.Rules[i])
		outcomes = append(outcomes, p.outcome(r, answers))
		if answers {
			result = p.answer(r)
			break
		}
	}
	s.day.count(outcomes...)
	return result, nil
}

// decide makes one call of the gate.
func (s *Service) decide(ctx context.Context, params Params, write bool) (admission.Decision, *policy, error) {
	req, err := s.policy().request(params)
	if err != nil {
		return admission.Decision{}, nil, err
	}
	var d admission.Decision
	began := time.Now()
	if write {
		d, err = s.gate.Charge(ctx, req)
	} else {
		d, err = s.gate.Check(ctx, req)
	}
	if err != nil {
		return d, nil, err
	}
	if write && s.opts.Decided != nil {
		asked, decided := req, d // copies, so that only they escape to the heap
		s.opts.Decided(&asked, &decided, time.Since(began))
	}
	p, err := s.decidedBy(d.Version)
	return d, p, err
}

// answers reports whether r decides with verdict v: it refuses the request, or it is direct.
func (r *rule) answers(v *admission.Verdict) bool { return r.method == "direct" || !v.Admitted }

// fallback returns the result for a request that no rule refuses; matching is the number of rules that match it.
func (p *policy) fallback(matching int) Result {
	if matching == 0 {
		return p.file.results[unmatched]
	}
	return p.file.results[within]
}

// BrowseComplete returns the results of all rules that refuse the request or are direct, in their order, or the single result of Browse
// if there are none. It counts the request if Browse would.
func (s *Service) BrowseComplete(ctx context.Context, params Params, write bool) ([]Result, error) {
	d, p, err := s.decide(ctx, params, write)
	if err != nil {
		return nil, err
	}
	var (
		all      []Result
		decisive = map[int]bool{} // rules that are part of the decision
	)
	for i := range d.Rules {
		r := p.named[d.Rules[i].Rule]
		answers := r.answers(&d.Rules[i])
		if decisive[r.code] = true; answers {
			all = append(all, p.answer(r))
		}
		s.day.count(p.outcome(r, answers))
	}
	if len(all) == 0 {
		return []Result{p.fallback(len(d.Rules))}, nil
	}
	return s.others(ctx, params, p, d.Version, decisive, all)
}

// others adds the results of rules after the one that ended the decision.
func (s *Service) others(
	ctx context.Context, params Params, p *policy, version string, decisive map[int]bool, all []Result,
) ([]Result, error) {
	req, err := p.request(params)
	if err != nil {
		return nil, err
	}
	e, err := s.gate.Explain(ctx, req)
	if errors.Is(err, admission.ErrUnavailable) || err == nil && e.Version != version {
		return all, nil // direct rules decide without the store
	}
	if err != nil {
		return nil, err
	}
	results := map[int]Result{}
	for _, result := range all {
		results[result.RetCode] = result
	}
	all = all[:0]
	for _, state := range e.Rules {
		r := p.named[state.Rule]
		result, ok := results[r.code]
		if !ok && !decisive[r.code] && state.Applies {
			for i := range state.Windows {
				ok = ok || !state.Windows[i].Admitted
			}
			ok = ok || r.method == "direct"
			s.day.count(p.outcome(r, ok))
			result = p.answer(r)
		}
		if ok {
			all = append(all, result)
		}
	}
	return all, nil
}

// Update counts the request in every rule that matches it. It has done so if it returns nil.
func (s *Service) Update(ctx context.Context, params Params) error {
	req, err := s.policy().request(params)
	if err != nil {
		return err
	}
	return s.counting.Add(ctx, req)
}

// The feedbacks. Each rule configures how many units they take back.
const (
	Erase1 = 1
	Erase2 = 2
)

// Feedback removes the newest units from matching leak rules: as many as each rule configures for erase, which is Erase1 or Erase2. The
// error is ErrInvalid or admission.ErrUnavailable.
func (s *Service) Feedback(ctx context.Context, params Params, erase int) error {
	for {
		p := s.policy()
		req, err := p.request(params)
		if err != nil {
			return err
		}
		units := map[string]int{}
		for name, r := range p.named {
			if n := r.erase[erase-1]; n > 0 {
				units[name] = n
			}
		}
		err = s.counting.Erase(ctx, req, units)
		if errors.Is(err, admission.ErrUnknownRule) && ctx.Err() == nil { // the rules have changed in between
			continue
		}
		return err
	}
}

// Value returns how many units the rule with this return number has counted for the request's subject, at most its limit. Conditions are
// ignored. For a base rule it is the sum of both counters. The error is ErrUnknownRule, ErrInvalid or admission.ErrUnavailable.
func (s *Service) Value(ctx context.Context, params Params, code int) (int, error) {
	p := s.policy()
	r := p.numbered[code]
	if r == nil {
		return 0, fmt.Errorf("%w: %d", ErrUnknownRule, code)
	}
	req, err := p.request(params)
	if err != nil {
		return 0, err
	}
	e, err := s.gate.Explain(ctx, req)
	if err != nil {
		return 0, err
	}
	if p, err = s.decidedBy(e.Version); err != nil {
		return 0, err
	}
	if r = p.numbered[code]; r == nil { // it was removed in between
		return 0, fmt.Errorf("%w: %d", ErrUnknownRule, code)
	}
	for _, state := range e.Rules {
		if state.Rule == r.name() && len(state.Windows) > 0 {
			return r.count + r.base - state.Windows[0].Remaining, nil
		}
	}
	return 0, nil
}

// atOnce is how many requests are decided concurrently: they share round trips.
const atOnce = 32

// An Answer is the answer to one of several requests: a Result, or ErrInvalid.
type Answer struct {
	Result Result
	Err    error
}

// BrowseAll is Browse for several requests, in their order; it counts nothing. An invalid request does not affect the others. The error
// is admission.ErrUnavailable.
func (s *Service) BrowseAll(ctx context.Context, requests []Params) ([]Answer, error) {
	answers := make([]Answer, len(requests))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, params := range requests {
		g.Go(func() (err error) {
			answers[i].Result, err = s.Browse(ctx, params, false)
			if errors.Is(err, ErrInvalid) {
				answers[i].Err, err = err, nil
			}
			return err
		})
	}
	return answers, g.Wait()
}

// Alive checks the store.
func (s *Service) Alive(ctx context.Context) error {
	if s.opts.Alive == nil {
		return nil
	}
	return s.opts.Alive(ctx)
}
