package chaos

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/internal/judge"
)

// result is the result of a round. It marshals to JSON.
type result struct {
	Seed     uint64         `json:"seed"`
	Double   bool           `json:"double,omitempty"`
	Costs    []string       `json:"costs,omitempty"`   // invariants whose breaches are counted, and are no failure
	Counted  []string       `json:"counted,omitempty"` // such breaches
	Plan     []string       `json:"plan"`
	Injected map[string]int `json:"injected"`
	Kinds    map[string]int `json:"kinds,omitempty"` // of the faults that have kinds, as fault=kind
	Reached  int            `json:"failpoints_reached"`
	Stopped  map[string]int `json:"leaders_stopped,omitempty"` // by fault and step
	Skipped  []string       `json:"skipped,omitempty"`         // faults that found nothing to break, or would have destroyed a last copy

	Calls         int            `json:"calls"`
	Accepted      int            `json:"accepted"`           // orders answered 202
	Lost          int            `json:"lost"`               // of these, neither a row nor a dead letter
	Rejected      map[string]int `json:"accepted_rejected"`  // of these, rejected, by reason
	Oversold      int            `json:"oversold"`           // units
	Nowhere       int            `json:"nowhere"`            // units neither free nor sold in the end
	Visitors      int            `json:"visitors,omitempty"` // of a waiting room
	Ordered       int            `json:"ordered,omitempty"`  // of these, who had a turn and an order
	Raised        int            `json:"epochs_raised"`
	Loads         int            `json:"loads"`          // of an item in an epoch, as far as recorded
	SlowestMS     int64          `json:"slowest_ms"`     // from a 202 until its buyer saw the next status
	UnavailableMS int64          `json:"unavailable_ms"` // longest time with only 503 and lost responses
	ReopenedMS    int64          `json:"reopened_ms"`    // longest time in which an API took no orders after the end of a fault
	Took          float64        `json:"took_s"`

	Breaches []string        `json:"breaches,omitempty"`
	Judged   []judge.Finding `json:"judged,omitempty"`
	Looked   []breaches      `json:"looked,omitempty"`
}

func newResult(p plan) *result {
	r := &result{Seed: p.Seed, Injected: make(map[string]int), Kinds: make(map[string]int), Rejected: make(map[string]int)}
	for _, s := range p.Steps {
		r.Plan = append(r.Plan, s.String())
		r.Double = r.Double || s.Fault == double.name
		if s.fault != nil {
			r.Costs = append(r.Costs, s.fault.costs...)
		}
	}
	return r
}

func (r *result) skip(s step, why error) { r.Skipped = append(r.Skipped, s.Fault+": "+why.Error()) }

func (r *result) breach(invariant, what string, examples ...string) {
	text := strings.TrimSpace(invariant + ": " + what + " " + strings.Join(examples, "; "))
	if slices.Contains(r.Costs, invariant) {
		r.Counted = append(r.Counted, text)
		return
	}
	r.Breaches = append(r.Breaches, text)
}

// ok reports whether the round has no breaches.
func (r *result) ok() bool { return len(r.Breaches) == 0 }

// String returns one line.
func (r *result) String() string {
	verdict := "ok"
	if !r.ok() {
		verdict = fmt.Sprintf("BROKEN (%d)", len(r.Breaches))
	}
	return fmt.Sprintf("seed %d: %-10s accepted %d  lost %d  rejected %d  oversold %d  nowhere %d  slowest %.1fs  503 for %.1fs  reopened in %.1fs  took %.0fs  %s",
		r.Seed, verdict, r.Accepted, r.Lost, total(r.Rejected), r.Oversold, r.Nowhere, float64(r.SlowestMS)/1000, float64(r.UnavailableMS)/1000,
		float64(r.ReopenedMS)/1000, r.Took, counts(r.Injected))
}

// counts formats numbers by name.
func counts(m map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if m[name] == 1 {
			parts = append(parts, name)
		} else {
			parts = append(parts, fmt.Sprintf("%s×%d", name, m[name]))
		}
	}
	return strings.Join(parts, " ")
}

// total returns the sum of numbers.
func total(m map[string]int) (sum int) {
	for _, n := range m {
		sum += n
	}
	return sum
}

// summary is the sum of several rounds. It marshals to JSON.
type summary struct {
	Commit        string         `json:"commit,omitempty"` // of the working tree, with "-dirty" if it is changed
	Seeds         []uint64       `json:"seeds"`
	Rounds        int            `json:"rounds"`
	Broken        []uint64       `json:"broken,omitempty"` // seeds
	Injected      map[string]int `json:"injected"`
	Kinds         map[string]int `json:"kinds"`
	Reached       int            `json:"failpoints_reached"`
	Stopped       map[string]int `json:"leaders_stopped"`
	Skipped       int            `json:"skipped"`
	Calls         int            `json:"calls"`
	Accepted      int            `json:"accepted"`
	Lost          int            `json:"lost"`
	Rejected      map[string]int `json:"accepted_rejected"`
	Oversold      int            `json:"oversold"`
	Nowhere       int            `json:"nowhere"`
	Raised        int            `json:"epochs_raised"`
	Loads         int            `json:"loads"`
	SlowestMS     int64          `json:"slowest_ms"`
	UnavailableMS int64          `json:"unavailable_ms"`
	ReopenedMS    int64          `json:"reopened_ms"`
	Results       []*result      `json:"results"`
}

func sum(results []*result) *summary {
	s := &summary{Commit: commit(), Injected: make(map[string]int), Kinds: make(map[string]int), Stopped: make(map[string]int), Rejected: make(map[string]int), Results: results}
	for _, r := range results {
		s.Rounds++
		s.Seeds = append(s.Seeds, r.Seed)
		if !r.ok() {
			s.Broken = append(s.Broken, r.Seed)
		}
		for _, pair := range [][2]map[string]int{{s.Injected, r.Injected}, {s.Kinds, r.Kinds}, {s.Stopped, r.Stopped}, {s.Rejected, r.Rejected}} {
			for name, n := range pair[1] {
				pair[0][name] += n
			}
		}
		s.Reached += r.Reached
		s.Skipped += len(r.Skipped)
		s.Calls += r.Calls
		s.Accepted += r.Accepted
		s.Lost += r.Lost
		s.Oversold += r.Oversold
		s.Nowhere += r.Nowhere
		s.Raised += r.Raised
		s.Loads += r.Loads
		s.SlowestMS, s.UnavailableMS, s.ReopenedMS = max(s.SlowestMS, r.SlowestMS), max(s.UnavailableMS, r.UnavailableMS), max(s.ReopenedMS, r.ReopenedMS)
	}
	slices.Sort(s.Seeds)
	return s
}

// commit returns the commit of the working tree; "" without one.
func commit() string {
	out, _ := exec.Command("git", "describe", "--always", "--dirty", "--exclude=*").Output()
	return strings.TrimSpace(string(out))
}

// skipped returns the faults that were not injected, and why.
func (s *summary) skipped() (all []string) {
	for _, r := range s.Results {
		all = append(all, r.Skipped...)
	}
	return all
}

// String returns the summary as text.
func (s *summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "rounds                        %d, at commit %s\n", s.Rounds, s.Commit)
	fmt.Fprintf(&b, "broken                        %d %v\n", len(s.Broken), s.Broken)
	fmt.Fprintf(&b, "faults injected               %d (%d skipped, %d deaths at failpoints)\n", total(s.Injected), s.Skipped, s.Reached)
	for _, name := range slices.Sorted(maps.Keys(s.Injected)) {
		fmt.Fprintf(&b, "  %-27s %d  %s\n", name, s.Injected[name], counts(kindsOf(s.Kinds, name)))
	}
	for _, at := range slices.Sorted(maps.Keys(s.Stopped)) {
		fmt.Fprintf(&b, "  stopped by %-42s %d\n", at, s.Stopped[at])
	}
	fmt.Fprintf(&b, "epochs raised                 %d, %d items loaded\n", s.Raised, s.Loads)
	fmt.Fprintf(&b, "calls                         %d\n", s.Calls)
	fmt.Fprintf(&b, "orders accepted               %d\n", s.Accepted)
	fmt.Fprintf(&b, "orders lost                   %d\n", s.Lost)
	fmt.Fprintf(&b, "orders accepted and rejected  %d  %s\n", total(s.Rejected), counts(s.Rejected))
	fmt.Fprintf(&b, "units oversold                %d\n", s.Oversold)
	fmt.Fprintf(&b, "units nowhere                 %d\n", s.Nowhere)
	fmt.Fprintf(&b, "longest time to a final state %.1f s\n", float64(s.SlowestMS)/1000)
	fmt.Fprintf(&b, "longest time of 503           %.1f s\n", float64(s.UnavailableMS)/1000)
	fmt.Fprintf(&b, "longest time to reopen        %.1f s after the end of a fault\n", float64(s.ReopenedMS)/1000)
	return b.String()
}

// kindsOf returns the counts of one fault's kinds.
func kindsOf(all map[string]int, fault string) map[string]int {
	kinds := make(map[string]int)
	for name, n := range all {
		if kind, is := strings.CutPrefix(name, fault+"="); is {
			kinds[kind] = n
		}
	}
	return kinds
}
