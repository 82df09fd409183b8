package algorithm

import (
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/admission/store"
)

// An Algorithm is one of store.Algorithms. Its file registers it.
type Algorithm struct {
	Name store.Algorithm
	counter

	// What its tallies have besides a limit and a length of time. The functions of its Lua get the same, in this order.
	Burst    bool // Tally.Burst
	Base     bool // Tally.Base
	Calendar bool // a Window that may be a unit of the calendar

	Uses  []store.Algorithm               // whose Lua its own needs
	Check func(w Window) (problem string) // what is wrong with the window of a rule, or ""; nil accepts all
}

// A Window is what a Check gets of the window of a rule.
type Window struct {
	Highest, Lowest int // of the limits for all callers; Lowest is the lowest that is not 0
	Length          time.Duration
	Burst           int // 0: none was given
}

// A counter counts in a State. Limits are 1 or more, and now is in µs.
type counter interface {
	read(s *State, now int64, t *store.Tally) Result
	charge(s *State, now int64, t *store.Tally) (r Result, stamp int64) // there is room
	countRejected(s *State, now int64, t *store.Tally)                  // even beyond the limit
	refund(s *State, now int64, t *store.Tally, cost int, stamp int64)
	ends(s *State, t *store.Tally) int64 // when nothing counts any more
}

var table = make([]Algorithm, len(store.Algorithms)) // in their order

func register(a Algorithm) { table[slices.Index(store.Algorithms, a.Name)] = a }

// Of returns the algorithm with this name, and that of store.SlidingLog if there is none.
func Of(name store.Algorithm) *Algorithm { return &table[Index(name)] }

// Index returns the place of an algorithm in store.Algorithms, as Of finds it.
func Index(name store.Algorithm) int {
	for i := range table {
		if table[i].Name == name {
			return i
		}
	}
	return 0
}

// Those names the algorithms that are so, as in "fixed_window or gcra".
func Those(so func(*Algorithm) bool) string {
	var names []string
	for i := range table {
		if so(&table[i]) {
			names = append(names, string(table[i].Name))
		}
	}
	return strings.Join(names, " or ")
}
