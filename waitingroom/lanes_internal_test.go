package waitingroom

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// queued is lanes in which so many people wait.
type queued struct {
	lanes []store.Lane
	wait  []int
}

func newQueued(shares ...int) *queued {
	q := &queued{wait: make([]int, len(shares))}
	for _, share := range shares {
		q.lanes = append(q.lanes, store.Lane{Share: share})
	}
	return q
}

// turns gives up to n turns, and returns how many each lane got.
func (q *queued) turns(n int) []int {
	got := make([]int, len(q.lanes))
	for range n {
		i, ok, _ := choose(q.lanes, func(i int) (yes, stop bool, err error) { return q.wait[i] > 0, false, nil })
		if !ok {
			break
		}
		countTurn(&q.lanes[i])
		q.wait[i]--
		got[i]++
	}
	return got
}

// Lanes in which people wait get turns by their shares, a few at a time as well as many.
func TestTurnsAreDividedByShare(t *testing.T) {
	for _, atOnce := range []int{1, 7, 1000} {
		q := newQueued(30, 70, 100)
		q.wait = []int{1000, 1000, 1000}
		sum := make([]int, 3)
		for range 1000 / atOnce {
			for i, n := range q.turns(atOnce) {
				sum[i] += n
			}
		}
		if diff := cmp.Diff([]int{150, 350, 500}, sum, cmp.Comparer(func(a, b int) bool { return a-b <= 4 && b-a <= 4 })); diff != "" {
			t.Errorf("%d at once: %s", atOnce, diff)
		}
	}
}

// The share of an empty lane goes to the others, and the lane has saved up nothing when people come.
func TestAnEmptyLaneSavesNothing(t *testing.T) {
	q := newQueued(30, 70)
	q.wait = []int{0, 2000}
	if diff := cmp.Diff([]int{0, 1000}, q.turns(1000)); diff != "" {
		t.Error(diff)
	}
	q.wait[0] = 100
	if got := q.turns(10); got[0] > 4 {
		t.Errorf("of 10 turns the lane that was empty got %d", got[0])
	}
	q = newQueued(30, 70)
	q.wait = []int{2000, 0}
	q.turns(1000)
	q.wait[1] = 100
	if got := q.turns(10); got[1] > 8 {
		t.Errorf("of 10 turns the lane that was empty got %d", got[1])
	}
}

// Before somebody's turn, other lanes get no more turns than turnsBefore said, whoever joins them meanwhile.
func TestTurnsBeforeIsABound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, maxLanes).Draw(t, "lanes")
		q := newQueued(rapid.SliceOfN(rapid.IntRange(1, maxShare), n, n).Draw(t, "shares")...)
		people := rapid.SliceOfN(rapid.IntRange(0, 20), n, n)
		q.wait = people.Draw(t, "waiting")
		q.turns(rapid.IntRange(0, 100).Draw(t, "turns before"))
		q.wait[0] = rapid.IntRange(1, 50).Draw(t, "position")
		most, got := make([]int64, n), make([]int64, n)
		for i := range q.lanes {
			most[i] = turnsBefore(&q.lanes[0], &q.lanes[i], int64(q.wait[0]))
		}
		for q.wait[0] > 0 {
			for i, more := range people.Draw(t, "joining") {
				if i > 0 {
					q.wait[i] += more
				}
			}
			for i, n := range q.turns(1) {
				got[i] += int64(n)
			}
		}
		for i := 1; i < n; i++ {
			if got[i] > most[i] {
				t.Fatalf("lane %d got %d turns, at most %d were to be expected", i, got[i], most[i])
			}
		}
	})
}

// What lanes a definition may have.
func TestCheckLanes(t *testing.T) {
	all := Lane{Name: "all", Share: 70}
	for what, tt := range map[string]struct {
		lanes []Lane
		want  string // part of what is wrong
	}{
		"none":         {nil, ""},
		"two":          {[]Lane{{"members", 30, "member"}, all}, ""},
		"any sum":      {[]Lane{{"a-1", 100, ""}, {"b-2", 100, ""}}, ""},
		"one":          {[]Lane{all}, "2 to 8, or none, got 1"},
		"nine":         {make([]Lane, 9), "2 to 8, or none, got 9"},
		"no name":      {[]Lane{all, {"", 1, ""}}, "a-z, 0-9 and -"},
		"a name":       {[]Lane{all, {"Gold", 1, ""}}, `got "Gold"`},
		"a long name":  {[]Lane{all, {strings.Repeat("x", 65), 1, ""}}, "1 to 64"},
		"twice":        {[]Lane{all, all}, `got "all" twice`},
		"no share":     {[]Lane{all, {"b", 0, ""}}, "share of 1 to 100, got 0 for b"},
		"a high share": {[]Lane{all, {"b", 101, ""}}, "share of 1 to 100, got 101 for b"},
		"a tier":       {[]Lane{all, {"b", 1, "\x00"}}, "printable"},
		"none is open": {[]Lane{{"a", 1, "x"}, {"b", 1, "x"}}, "one lane without a tier"},
	} {
		if got := checkLanes(tt.lanes); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: %q, want %q", what, got, tt.want)
		}
	}
}
