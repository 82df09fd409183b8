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
)

// DefaultZone is where a counter of 86400 seconds begins at midnight, unless another zone is set.
const DefaultZone = "Asia/Shanghai"

// ErrUnknownRule means that no rule has this return number.
var ErrUnknownRule = errors.New("koala: no rule has this return number")

// Options of a Service. Path and Secret are required.
type Options struct {
	// Path of a rule file, or of a koala.conf that names one.
	Path string
	// Zone of calendar days. Nil: DefaultZone.
	Zone *time.Location
	// Secret and Namespace are those of admission.Options. All keys begin with the namespace and ":koala".
	Secret    []byte
	Namespace string
	// Alive asks the store whether it is there. Nil: it always is, being in this process.
	Alive func(context.Context) error
	// Decided is told of every decision that charged, or would have. It must be safe for concurrent use, and keep neither. Nil: nobody is.
	Decided func(req *admission.Request, d *admission.Decision, took time.Duration)
	// Logger gets warnings, what reloads meet with, and yesterday's counters. Nil: slog.Default().
	Logger *slog.Logger
}

// A Service decides by a rule file. Make it with New; it is safe for concurrent use.
type Service struct {
	opts Options
	gate *admission.Gate
	// The policy in force, the first, and those before it, by which requests may have been decided that are answered now.
	known atomic.Pointer[[]*policy]
	day   *tallies
	said  []string // the warnings of the files as they were last read; of load
}

// New reads the rule file and returns a service that keeps its counts in store. The error is that of the file, with line and text.
func New(store admission.Store, o Options) (*Service, error) {
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
	s.gate, err = admission.New(store, rules, admission.Options{Secret: o.Secret, Namespace: o.Namespace + ":koala", Logger: o.Logger})
	return s, err
}

// load reads the files as they are now, for the gate, which calls it once at a time.
func (s *Service) load() (*admission.Rules, error) {
	p, rules, err := load(s.opts.Path, s.opts.Zone)
	if err != nil {
		return nil, err
	}
	for _, text := range p.warnings {
		if !slices.Contains(s.said, text) {
			s.opts.Logger.Warn("koala: " + text)
		}
	}
	s.said = p.warnings
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

// remembered is how many policies are known: more than come into force while a request is decided.
const remembered = 64

// policy is the one in force.
func (s *Service) policy() *policy { return (*s.known.Load())[0] }

// decidedBy is the policy of a version that was in force a moment ago.
func (s *Service) decidedBy(version string) (*policy, error) {
	for _, p := range *s.known.Load() {
		if p.version == version {
			return p, nil
		}
	}
	return nil, fmt.Errorf("koala: the rules of version %s are known no more", version)
}

// Run follows the files until ctx ends; it then returns nil. Without it the service decides too.
func (s *Service) Run(ctx context.Context) error { return s.gate.Run(ctx) }

// Reload puts the files as they are now into force. After an error, which is that of New, what was in force stays.
func (s *Service) Reload() error {
	_, err := s.gate.Reload()
	return err
}

// Browse returns what the first rule says that the request is too much for, having counted nothing; or, if it writes through, having
// counted the request in all rules that match it, if it is let in. The error is ErrInvalid or admission.ErrUnavailable.
func (s *Service) Browse(ctx context.Context, params Params, write bool) (Result, error) {
	d, p, err := s.decide(ctx, params, write)
	if err != nil {
		return Result{}, err
	}
	result := p.calm(len(d.Rules))
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

// decide asks the gate, once.
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
		asked, decided := req, d // these are on the heap, and not those of all
		s.opts.Decided(&asked, &decided, time.Since(began))
	}
	p, err := s.decidedBy(d.Version)
	return d, p, err
}

// answers tells whether a verdict on r decides: the request is too much for it, or it is direct.
func (r *rule) answers(v *admission.Verdict) bool { return r.method == "direct" || !v.Admitted }

// calm is what a request hears that no rule stops, of which so many match.
func (p *policy) calm(matching int) Result {
	if matching == 0 {
		return p.file.results[unmatched]
	}
	return p.file.results[within]
}

// BrowseComplete returns what every rule says that the request is too much for, in their order, or the one result of Browse if there is
// none. Whether it counts is decided as Browse decides it.
func (s *Service) BrowseComplete(ctx context.Context, params Params, write bool) ([]Result, error) {
	d, p, err := s.decide(ctx, params, write)
	if err != nil {
		return nil, err
	}
	var (
		all  []Result
		said = map[int]bool{} // rules that the decision told of
	)
	for i := range d.Rules {
		r := p.named[d.Rules[i].Rule]
		answers := r.answers(&d.Rules[i])
		if said[r.code] = true; answers {
			all = append(all, p.answer(r))
		}
		s.day.count(p.outcome(r, answers))
	}
	if len(all) == 0 {
		return []Result{p.calm(len(d.Rules))}, nil
	}
	return s.others(ctx, params, p, d.Version, said, all)
}

// others adds what the rules say that a decision did not come to, since one above them had decided.
func (s *Service) others(ctx context.Context, params Params, p *policy, version string, said map[int]bool, all []Result) ([]Result, error) {
	req, err := p.request(params)
	if err != nil {
		return nil, err
	}
	e, err := s.gate.Explain(ctx, req)
	if errors.Is(err, admission.ErrUnavailable) || err == nil && e.Version != version {
		return all, nil // black and white lists answer without the store
	}
	if err != nil {
		return nil, err
	}
	told := map[int]Result{}
	for _, result := range all {
		told[result.RetCode] = result
	}
	all = all[:0]
	for _, standing := range e.Rules {
		r := p.named[standing.Rule]
		result, ok := told[r.code]
		if !ok && !said[r.code] && standing.Applies {
			for i := range standing.Windows {
				ok = ok || !standing.Windows[i].Admitted
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

// Update counts the request in every rule that matches it, once it returns nil.
func (s *Service) Update(ctx context.Context, params Params) error {
	req, err := s.policy().request(params)
	if err != nil {
		return err
	}
	return s.gate.Add(ctx, req)
}

// The feedbacks there are: how much of what was counted they take back, each rule says.
const (
	Erase1 = 1
	Erase2 = 2
)

// Feedback takes back the newest units that matching leak rules have counted: as many as each says for erase, which is Erase1 or Erase2.
// The error is ErrInvalid or admission.ErrUnavailable.
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
		err = s.gate.Erase(ctx, req, units)
		if errors.Is(err, admission.ErrUnknownRule) && ctx.Err() == nil { // the rules have changed meanwhile
			continue
		}
		return err
	}
}

// Value returns how much the rule with this return number has counted for the request, whether it matches or not; at most its limit. Of a
// base rule it is what both counters hold. The error is ErrUnknownRule, ErrInvalid or admission.ErrUnavailable.
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
	if r = p.numbered[code]; r == nil { // it has gone in the meantime
		return 0, fmt.Errorf("%w: %d", ErrUnknownRule, code)
	}
	for _, standing := range e.Rules {
		if standing.Rule == r.name() && len(standing.Windows) > 0 {
			return r.count + r.base - standing.Windows[0].Remaining, nil
		}
	}
	return 0, nil
}

// atOnce is how many requests are decided at a time: they share round trips.
const atOnce = 32

// An Answer is what becomes of one of several requests: a Result, or ErrInvalid.
type Answer struct {
	Result Result
	Err    error
}

// BrowseAll is Browse for several requests, in their order; nothing is counted. One that is invalid does not keep the others from theirs.
// The error is admission.ErrUnavailable.
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

// Alive asks the store whether it is there.
func (s *Service) Alive(ctx context.Context) error {
	if s.opts.Alive == nil {
		return nil
	}
	return s.opts.Alive(ctx)
}
