package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/internal/rehearse"
)

// result is the result of a round. It marshals to JSON.
type result struct {
	Seed     uint64         `json:"seed"`
	Double   bool           `json:"double,omitempty"`
	Costs    []string       `json:"costs,omitempty"`   // invariants whose breaches are counted, and are no failure
	Counted  []string       `json:"counted,omitempty"` // such breaches
	Plan     []string       `json:"plan"`
	Injected map[string]int `json:"injected"`
	Reached  int            `json:"failpoints_reached"`
	Stopped  map[string]int `json:"leaders_stopped,omitempty"` // by fault and step
	Skipped  []string       `json:"skipped,omitempty"`         // faults that found nothing to break, or would have destroyed a last copy

	Calls         int     `json:"calls"`
	Accepted      int     `json:"accepted"` // orders answered 202
	Lost          int     `json:"lost"`     // of these, neither a row nor a dead letter
	Oversold      int     `json:"oversold"` // units
	Late          int     `json:"recovered_late"`
	Visitors      int     `json:"visitors,omitempty"` // of a waiting room
	Ordered       int     `json:"ordered,omitempty"`  // of these, who had a turn and an order
	Raised        int     `json:"epochs_raised"`
	Loads         int     `json:"loads"`          // of an item in an epoch, as far as recorded
	SlowestMS     int64   `json:"slowest_ms"`     // from a 202 until its buyer saw the next status
	UnavailableMS int64   `json:"unavailable_ms"` // longest time with only 503 and lost responses
	Took          float64 `json:"took_s"`

	Breaches []string           `json:"breaches,omitempty"`
	Judged   []rehearse.Finding `json:"judged,omitempty"`
	Looked   []breaches         `json:"looked,omitempty"`
}

func newResult(p plan) *result {
	r := &result{Seed: p.Seed, Injected: make(map[string]int)}
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
	return fmt.Sprintf("seed %d: %-10s accepted %d  lost %d  oversold %d  late %d  slowest %.1fs  503 for %.1fs  took %.0fs  %s",
		r.Seed, verdict, r.Accepted, r.Lost, r.Oversold, r.Late, float64(r.SlowestMS)/1000, float64(r.UnavailableMS)/1000, r.Took, counts(r.Injected))
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

// summary is the sum of several rounds. It marshals to JSON.
type summary struct {
	Rounds        int            `json:"rounds"`
	Broken        []uint64       `json:"broken,omitempty"` // seeds
	Injected      map[string]int `json:"injected"`
	Reached       int            `json:"failpoints_reached"`
	Stopped       map[string]int `json:"leaders_stopped"`
	Skipped       int            `json:"skipped"`
	Calls         int            `json:"calls"`
	Accepted      int            `json:"accepted"`
	Lost          int            `json:"lost"`
	Oversold      int            `json:"oversold"`
	Late          int            `json:"recovered_late"`
	Raised        int            `json:"epochs_raised"`
	Loads         int            `json:"loads"`
	SlowestMS     int64          `json:"slowest_ms"`
	UnavailableMS int64          `json:"unavailable_ms"`
	Results       []*result      `json:"results"`
}

func sum(results []*result) *summary {
	s := &summary{Injected: make(map[string]int), Stopped: make(map[string]int), Results: results}
	for _, r := range results {
		s.Rounds++
		if !r.ok() {
			s.Broken = append(s.Broken, r.Seed)
		}
		for name, n := range r.Injected {
			s.Injected[name] += n
		}
		for at, n := range r.Stopped {
			s.Stopped[at] += n
		}
		s.Reached += r.Reached
		s.Skipped += len(r.Skipped)
		s.Calls += r.Calls
		s.Accepted += r.Accepted
		s.Lost += r.Lost
		s.Oversold += r.Oversold
		s.Late += r.Late
		s.Raised += r.Raised
		s.Loads += r.Loads
		s.SlowestMS, s.UnavailableMS = max(s.SlowestMS, r.SlowestMS), max(s.UnavailableMS, r.UnavailableMS)
	}
	return s
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
	injected := 0
	for _, n := range s.Injected {
		injected += n
	}
	fmt.Fprintf(&b, "rounds                        %d\n", s.Rounds)
	fmt.Fprintf(&b, "broken                        %d %v\n", len(s.Broken), s.Broken)
	fmt.Fprintf(&b, "faults injected               %d (%d skipped, %d deaths at failpoints)\n", injected, s.Skipped, s.Reached)
	for _, name := range slices.Sorted(maps.Keys(s.Injected)) {
		fmt.Fprintf(&b, "  %-27s %d\n", name, s.Injected[name])
	}
	for _, at := range slices.Sorted(maps.Keys(s.Stopped)) {
		fmt.Fprintf(&b, "  stopped by %-42s %d\n", at, s.Stopped[at])
	}
	fmt.Fprintf(&b, "epochs raised                 %d, %d items loaded\n", s.Raised, s.Loads)
	fmt.Fprintf(&b, "calls                         %d\n", s.Calls)
	fmt.Fprintf(&b, "orders accepted               %d\n", s.Accepted)
	fmt.Fprintf(&b, "orders lost                   %d\n", s.Lost)
	fmt.Fprintf(&b, "units oversold                %d\n", s.Oversold)
	fmt.Fprintf(&b, "rejected as recovered late    %d\n", s.Late)
	fmt.Fprintf(&b, "longest time to a final state %.1f s\n", float64(s.SlowestMS)/1000)
	fmt.Fprintf(&b, "longest time of 503           %.1f s\n", float64(s.UnavailableMS)/1000)
	return b.String()
}
