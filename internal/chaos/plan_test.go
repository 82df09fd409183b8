package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Duration of the crowd's wave, and when faults may begin.
const (
	wave       = 10 * time.Second
	firstFault = time.Second
	lastFault  = 9 * time.Second
)

// plan is the faults of a round. It is derived from the seed alone.
type plan struct {
	Seed  uint64 `json:"seed"`
	Steps []step `json:"steps"`
	needs needs
}

// step is a fault at a time in the wave.
type step struct {
	At    time.Duration `json:"at_ns"`
	Fault string        `json:"fault"`
	params
	fault *fault
}

// shiftsClocks reports whether a process of the plan has a wrong clock.
func (p plan) shiftsClocks() bool {
	return slices.ContainsFunc(p.Steps, func(s step) bool { return s.fault.clocks })
}

// setsDatabaseClock reports whether the database's clock, by which waiting rooms go, is wrong for a while.
func (p plan) setsDatabaseClock() bool {
	return slices.ContainsFunc(p.Steps, func(s step) bool { return s.Clock != 0 && s.fault.needs&postgresClock != 0 })
}

func (s step) String() string {
	return strings.TrimSpace(fmt.Sprintf("+%.3fs  %-28s %s", s.At.Seconds(), s.Fault, s.params))
}

// newPlan draws a plan of up to five faults. Consecutive seeds begin with consecutive faults of the table, each kind of a fault in its turn.
func newPlan(seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, 0x6368616f73))
	turns := ofEachKind(faults)
	lead := &turns[seed%uint64(len(turns))]
	chosen := []*fault{lead}
	want := lead.needs
	for range 2 + r.IntN(3) {
		f := &faults[r.IntN(len(faults))]
		if both, ok := want.with(f.needs); ok {
			want, chosen = both, append(chosen, f)
		}
	}
	return planOf(seed, r, chosen...)
}

// ofEachKind returns the faults of a table, one that has kinds once for each of them.
func ofEachKind(table []fault) (all []fault) {
	for _, f := range table {
		if f.kinds == nil {
			all = append(all, f)
		}
		for i := range f.kinds {
			one := f
			one.kinds = f.kinds[i : i+1]
			all = append(all, one)
		}
	}
	return all
}

// pileUp are faults that make uncommitted orders accumulate before Redis loses its memory.
var pileUp = []string{"freeze-all-workers", "hold-commits"}

// planOf returns a plan with the chosen faults, some of them made worse, and often two of them at the same time.
func planOf(seed uint64, r *rand.Rand, chosen ...*fault) plan {
	p := exactly(seed, r, chosen...)
	p.pair(r)
	for _, s := range slices.Clone(p.Steps) {
		if i := r.IntN(3); s.fault.takes == redises && i < len(pileUp) {
			f := faultNamed(pileUp[i])
			p.Steps = append(p.Steps, step{Fault: f.name, fault: f, params: f.draw(r), At: s.At - between(r, 300*time.Millisecond, 900*time.Millisecond)})
		}
	}
	p.sort()
	return p
}

// pair moves two of the faults to the same time, in half of the plans.
func (p *plan) pair(r *rand.Rand) {
	if len(p.Steps) < 2 || r.IntN(2) == 0 {
		return
	}
	i := r.Perm(len(p.Steps))
	one, other := &p.Steps[i[0]], &p.Steps[i[1]]
	one.At = max(one.At, other.At) // so that neither restores a state from before the crowd
	other.At = one.At
}

// exactly returns a plan with the chosen faults, in this order.
func exactly(seed uint64, r *rand.Rand, chosen ...*fault) plan {
	p := plan{Seed: seed}
	for _, f := range chosen {
		both, ok := p.needs.with(f.needs)
		if !ok {
			panic("chaos: no cluster has what " + f.name + " and the faults before it need")
		}
		p.needs = both
		s := step{Fault: f.name, fault: f, At: between(r, firstFault, lastFault)}
		if f.draw != nil {
			s.params = f.draw(r)
		}
		if f.kinds != nil {
			s.Kind = f.kinds[r.IntN(len(f.kinds))]
		}
		s.At = max(s.At, firstFault+s.Before)
		p.Steps = append(p.Steps, s)
	}
	return p
}

func (p *plan) sort() {
	slices.SortStableFunc(p.Steps, func(a, b step) int { return cmp.Compare(a.At, b.At) })
}

// only returns the plan with only the steps whose numbers, from 1, are in keep.
func (p plan) only(keep []int) plan {
	steps := p.Steps
	p.Steps = nil
	for _, i := range keep {
		if i >= 1 && i <= len(steps) {
			p.Steps = append(p.Steps, steps[i-1])
		}
	}
	return p
}

// shrink removes faults one by one as long as the plan still breaks the round: holds reports whether the round held without the
// i-th.
func shrink(p plan, holds func(i int, without plan) bool) plan {
	number := 0
	for i := 0; i < len(p.Steps); {
		without := p
		without.Steps = slices.Delete(slices.Clone(p.Steps), i, i+1)
		number++
		if holds(number, without) {
			i++ // the breach needs this one
		} else {
			p = without
		}
	}
	return p
}

// String returns one line per fault.
func (p plan) String() string {
	var b strings.Builder
	for i, s := range p.Steps {
		fmt.Fprintf(&b, "  %d. %s\n", i+1, s)
	}
	return b.String()
}

// planNamed parses a plan of faults of a table from a text, as in
//
//	hold-commits@3s~2s,kill-api#1@3.5s,api-at-before_answer!20,freeze-leader=leader_opens,flushall
//
// with the time, the duration, the target, the hit of the failpoint, the kind (the step of a recovery, for instance), and how far the
// restored state goes back (<500ms). Parameters that are left out are drawn from the seed.
func planNamed(table []fault, seed uint64, r *rand.Rand, text string) (plan, error) {
	const marks = "#@~!=<"
	var (
		chosen []*fault
		set    []func(*step) error
	)
	for part := range strings.SplitSeq(text, ",") {
		name, rest := part, ""
		if i := strings.IndexAny(part, marks); i >= 0 {
			name, rest = part[:i], part[i:]
		}
		i := slices.IndexFunc(table, func(f fault) bool { return f.name == name })
		if i < 0 {
			return plan{}, fmt.Errorf("there is no fault %q", name)
		}
		chosen = append(chosen, &table[i])
		set = append(set, func(s *step) (err error) {
			for rest != "" && err == nil {
				kind := rest[0]
				end := strings.IndexAny(rest[1:], marks) + 1
				if end == 0 {
					end = len(rest)
				}
				value := rest[1:end]
				rest = rest[end:]
				switch kind {
				case '#':
					s.Target, err = strconv.Atoi(value)
				case '!':
					s.Hit, err = strconv.Atoi(value)
				case '=':
					if s.Kind = value; !slices.Contains(s.fault.kinds, value) {
						err = fmt.Errorf("it has no kind %q, only %v", value, s.fault.kinds)
					}
				case '@':
					s.At, err = time.ParseDuration(value)
				case '~':
					s.For, err = time.ParseDuration(value)
				case '<':
					s.Before, err = time.ParseDuration(value)
				}
			}
			return err
		})
	}
	p := exactly(seed, r, chosen...)
	for i := range p.Steps {
		if err := set[i](&p.Steps[i]); err != nil {
			return plan{}, fmt.Errorf("fault %s: %w", p.Steps[i].Fault, err)
		}
	}
	p.sort()
	return p, nil
}

// faultNamed returns a fault of the table.
func faultNamed(name string) *fault {
	i := slices.IndexFunc(faults, func(f fault) bool { return f.name == name })
	if i < 0 {
		panic("chaos: there is no fault " + name)
	}
	return &faults[i]
}
