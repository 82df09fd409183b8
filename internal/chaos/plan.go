package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// How long the crowd comes, and when faults may begin.
const (
	wave       = 10 * time.Second
	firstFault = time.Second
	lastFault  = 9 * time.Second
)

// plan is what happens in a round. It follows from the seed alone.
type plan struct {
	Seed  uint64 `json:"seed"`
	Steps []step `json:"steps"`
	needs needs
}

// step is a fault at a moment of the wave.
type step struct {
	At    time.Duration `json:"at_ns"`
	Fault string        `json:"fault"`
	params
	fault *fault
}

func (s step) String() string {
	return strings.TrimSpace(fmt.Sprintf("+%.3fs  %-28s %s", s.At.Seconds(), s.Fault, s.params))
}

// newPlan draws a plan of up to five faults. Seeds that follow each other lead with one fault of the table after another.
func newPlan(seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, 0x6368616f73))
	lead := &faults[seed%uint64(len(faults))]
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

// pileUp are the faults before which Redis may lose its memory with many orders in it that are not committed.
var pileUp = []string{"freeze-all-workers", "hold-commits"}

// planOf is a plan of these very faults.
func planOf(seed uint64, r *rand.Rand, chosen ...*fault) plan {
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
		s.At = max(s.At, firstFault+s.Before)
		p.Steps = append(p.Steps, s)
		if i := r.IntN(3); f.takes == redises && i < len(pileUp) {
			f := faultNamed(pileUp[i])
			p.Steps = append(p.Steps, step{Fault: f.name, fault: f, params: f.draw(r), At: s.At - between(r, 300*time.Millisecond, 900*time.Millisecond)})
		}
	}
	slices.SortStableFunc(p.Steps, func(a, b step) int { return cmp.Compare(a.At, b.At) })
	return p
}

// only is the plan with nothing but the steps that keep says, by their numbers from 1.
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

// shrink takes faults away, one after the other, for as long as the plan breaks the round: holds tells whether it held without the i-th.
func shrink(p plan, holds func(i int, without plan) bool) plan {
	number := 0
	for i := 0; i < len(p.Steps); {
		without := p
		without.Steps = slices.Delete(slices.Clone(p.Steps), i, i+1)
		number++
		if holds(number, without) {
			i++ // it takes this one
		} else {
			p = without
		}
	}
	return p
}

// String is one line a fault.
func (p plan) String() string {
	var b strings.Builder
	for i, s := range p.Steps {
		fmt.Fprintf(&b, "  %d. %s\n", i+1, s)
	}
	return b.String()
}

// faultNamed finds a fault of the table.
func faultNamed(name string) *fault {
	i := slices.IndexFunc(faults, func(f fault) bool { return f.name == name })
	if i < 0 {
		panic("chaos: there is no fault " + name)
	}
	return &faults[i]
}
