package waitingroom

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/internal/names"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// Lanes. Each lane has its own numbers, order and cursor; a room without lanes has one, without a name. The room's bounds set how
// many turns a tick gives, and stride scheduling (Waldspurger and Weihl 1995) chooses the lanes: a turn adds 1/share to the pass
// of its lane, and the lane with the lowest pass is next. A lane in which no visitor can take a turn is skipped, and its pass
// follows that of the others, so it saves up nothing.

// Lane is a part of a room's visitors with a share of its turns.
type Lane struct {
	Name  string `json:"lane"`
	Share int    `json:"share"`          // 1 to 100; while people wait in two lanes, their turns are in the ratio of their shares
	Tier  string `json:"tier,omitempty"` // only visitors of this tier may join; empty: everybody
}

const (
	minLanes = 2
	maxLanes = 8
	maxShare = 100
)

// checkLanes returns what is wrong with the lanes of a definition, or "".
func checkLanes(lanes []Lane) string {
	if len(lanes) == 0 {
		return ""
	}
	if len(lanes) < minLanes || len(lanes) > maxLanes {
		return fmt.Sprintf("%d to %d, or none, got %d", minLanes, maxLanes, len(lanes))
	}
	seen := make(map[string]bool)
	open := false
	for _, l := range lanes {
		switch {
		case !ValidName(l.Name):
			return fmt.Sprintf("named with "+names.Length+" of a-z, 0-9 and -, got %.80q", l.Name)
		case seen[l.Name]:
			return fmt.Sprintf("named differently, got %q twice", l.Name)
		case l.Share < 1 || l.Share > maxShare:
			return fmt.Sprintf("given a share of 1 to %d, got %d for %s", maxShare, l.Share, l.Name)
		case input.Printable(l.Tier, maxUser) != nil:
			return fmt.Sprintf("given a tier of at most %d printable characters, got %.80q for %s", maxUser, l.Tier, l.Name)
		}
		seen[l.Name] = true
		open = open || l.Tier == ""
	}
	if !open {
		return "open to everybody in at least one case: one lane without a tier"
	}
	return ""
}

// openLane returns the index of the lane of those who name none: the last without a tier.
func (d *Definition) openLane() int {
	for i, l := range slices.Backward(d.Lanes) {
		if l.Tier == "" {
			return i
		}
	}
	return 0
}

// laneFor returns the name of the lane that a visitor joins. It returns a refusal if the lane is for another tier,
// and an ErrInvalid for a lane that the room does not have.
func (d *Definition) laneFor(who *Visitor) (string, *Refusal, error) {
	if len(d.Lanes) == 0 {
		if who.Lane != "" {
			return "", nil, invalid("lane", "be left out: room %s has no lanes", d.Room)
		}
		return "", nil, nil
	}
	i := d.openLane()
	if who.Lane != "" {
		i = slices.IndexFunc(d.Lanes, func(l Lane) bool { return l.Name == who.Lane })
	}
	if i < 0 {
		all := make([]string, len(d.Lanes))
		for i, l := range d.Lanes {
			all[i] = l.Name
		}
		return "", nil, invalid("lane", "be one of %s, got %.80q", strings.Join(all, ", "), who.Lane)
	}
	if l := d.Lanes[i]; l.Tier != "" && l.Tier != who.Tier {
		return "", &Refusal{Reason: ReasonForbidden, Detail: fmt.Sprintf("lane %s takes visitors of tier %s only", l.Name, l.Tier)}, nil
	}
	return d.Lanes[i].Name, nil, nil
}

// sameLanes reports whether next has the lanes of d, perhaps with other shares.
func (d *Definition) sameLanes(next *Definition) bool {
	return slices.EqualFunc(d.Lanes, next.Lanes, func(a, b Lane) bool { return a.Name == b.Name && a.Tier == b.Tier })
}

// newLanes returns the lanes of a room without places.
func newLanes(d *Definition) []store.Lane {
	if len(d.Lanes) == 0 {
		return []store.Lane{{Share: 1}}
	}
	all := make([]store.Lane, len(d.Lanes))
	for i, l := range d.Lanes {
		all[i] = store.Lane{Name: l.Name, Share: l.Share, Tier: l.Tier, Tail: store.Tail{Name: l.Name}}
	}
	return all
}

// applyDefinition makes d the definition of a room; checkChange has permitted it.
func (r *room) applyDefinition(d *Definition) {
	if !r.def.sameLanes(d) {
		r.saved.Lanes = newLanes(d)
	}
	for i, l := range d.Lanes {
		r.saved.Lanes[i].Share = l.Share
	}
	r.def = *d
}

// laneIndex returns the index of a lane, or -1 if the room does not have it.
func (r *room) laneIndex(name string) int {
	return slices.IndexFunc(r.saved.Lanes, func(l store.Lane) bool { return l.Name == name })
}

// served returns how many positions of all lanes have had their turn.
func (r *room) served() (n int64) {
	for i := range r.saved.Lanes {
		n += r.saved.Lanes[i].Served
	}
	return n
}

// choose returns the lane of the next turn. waits reports whether a visitor can take a turn in a lane; stop ends the search
// without a lane. ok is false without a lane.
func choose(lanes []store.Lane, waits func(lane int) (yes, stop bool, err error)) (chosen int, ok bool, err error) {
	order := make([]int, len(lanes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(lanes[a].VirtualTime, lanes[b].VirtualTime) })
	for n, i := range order {
		yes, stop, err := waits(i)
		if err != nil || stop {
			return 0, false, err
		}
		if !yes {
			continue
		}
		for _, idle := range order[:n] {
			lanes[idle].VirtualTime = lanes[i].VirtualTime
		}
		return i, true, nil
	}
	return 0, false, nil
}

// countTurn counts a turn of the lane.
func countTurn(l *store.Lane) { l.VirtualTime += 1 / float64(l.Share) }

// turnsBefore returns how many turns another lane gets at most until l has given n more, if somebody waits in l all that time:
// choose prefers the other one only while its pass is not above that of l at its last turn.
func turnsBefore(l, other *store.Lane, n int64) int64 {
	last := l.VirtualTime + float64(n-1)/float64(l.Share)
	// rounded up, because virtual times are sums of rounded fractions
	return max(0, int64(math.Ceil((last-other.VirtualTime)*float64(other.Share)))+1)
}
