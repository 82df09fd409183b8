package waitingroom

import (
	"math"
	"testing"

	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// The controller: how many turns, and units for them, a tick may give.
func TestBudget(t *testing.T) {
	sells := Definition{Sale: "spring", Bound: BoundStrict}
	for what, tt := range map[string]struct {
		room         room
		facts        store.Counts
		dt           int64
		turns, units int64
	}{
		"a room by hand gives none":         {room: room{saved: store.Saved{Brake: 1}}, turns: 0, units: math.MaxInt64},
		"but those of the operator":         {room: room{saved: store.Saved{Brake: 1, Extra: 7}}, turns: 7, units: math.MaxInt64},
		"at most some in a tick":            {room: room{saved: store.Saved{Brake: 1, Extra: 7_000}}, turns: maxTurns, units: math.MaxInt64},
		"a capacity":                        {room: room{def: Definition{Capacity: 10}, saved: store.Saved{Brake: 1}}, facts: store.Counts{Active: 4, Open: 3}, turns: 3, units: math.MaxInt64},
		"a capacity that is used up":        {room: room{def: Definition{Capacity: 10}, saved: store.Saved{Brake: 1, Extra: 5}}, facts: store.Counts{Active: 9, Open: 3}, turns: 0, units: math.MaxInt64},
		"of 100 turns 25 are taken":         {room: room{def: Definition{Capacity: 10}, saved: store.Saved{Brake: 1}}, facts: store.Counts{Open: 20, Given: 100, Taken: 25}, turns: 5, units: math.MaxInt64},
		"too few turns say nothing":         {room: room{def: Definition{Capacity: 10}, saved: store.Saved{Brake: 1}}, facts: store.Counts{Open: 10, Given: fewTurns - 1}, turns: 0, units: math.MaxInt64},
		"a rate, after a second":            {room: room{def: Definition{RatePerMin: 60}, saved: store.Saved{Brake: 1}}, dt: 1000, turns: 1, units: math.MaxInt64},
		"a quiet hour banks two seconds":    {room: room{def: Definition{RatePerMin: 600}, saved: store.Saved{Brake: 1}}, dt: 3_600_000, turns: 21, units: math.MaxInt64},
		"a clock that goes back":            {room: room{def: Definition{RatePerMin: 600}, saved: store.Saved{Brake: 1, Credit: 3}}, dt: -1000, turns: 3, units: math.MaxInt64},
		"a minute's rate that was claimed":  {room: room{def: Definition{RatePerMin: 60}, saved: store.Saved{Brake: 1, Credit: 3}}, facts: store.Counts{Claimed: 60}, turns: 0, units: math.MaxInt64},
		"with those that are fresh":         {room: room{def: Definition{RatePerMin: 60}, saved: store.Saved{Brake: 1, Credit: 3}}, facts: store.Counts{Claimed: 50, Fresh: 9}, turns: 1, units: math.MaxInt64},
		"every fourth is taken: four times": {room: room{def: Definition{RatePerMin: 60}, saved: store.Saved{Brake: 1}}, facts: store.Counts{Given: 100, Taken: 25}, dt: 1000, turns: 4, units: math.MaxInt64},
		"stock":                             {room: room{def: sells, saved: store.Saved{Brake: 1, Free: 10}}, facts: store.Counts{OpenUnits: 3, ActiveUnits: 4}, turns: maxTurns, units: 3},
		"stock that is promised":            {room: room{def: sells, saved: store.Saved{Brake: 1, Free: 5}}, facts: store.Counts{OpenUnits: 3, ActiveUnits: 4}, turns: maxTurns, units: 0},
		"stock that half use":               {room: room{def: Definition{Sale: "s", Bound: BoundExpected}, saved: store.Saved{Brake: 1, Free: 10}}, facts: store.Counts{OpenUnits: 3, Over: 20, Used: 10}, turns: maxTurns, units: 17},
		"stock that nobody uses":            {room: room{def: Definition{Sale: "s", Bound: BoundExpected}, saved: store.Saved{Brake: 1, Free: 1}}, facts: store.Counts{Over: 20}, turns: maxTurns, units: 10},
		"slow commits":                      {room: room{def: sells, saved: store.Saved{Brake: 0.25, Free: 1000}}, turns: maxTurns / 4, units: 1000},
		"the slowest":                       {room: room{def: sells, saved: store.Saved{Brake: brakeFloor, Free: 1000}}, turns: 1, units: 1000},
	} {
		if turns, units := tt.room.budget(&tt.facts, tt.dt); turns != tt.turns || units != tt.units {
			t.Errorf("%s: %d turns and %d units, want %d and %d", what, turns, units, tt.turns, tt.units)
		}
	}
}

// The brake is halved in a second, rises by a fiftieth, and stays within its bounds, whatever the clock does.
func TestBrake(t *testing.T) {
	for what, tt := range map[string]struct {
		brake, lag float64 // lag in seconds
		dt         int64
		want       float64
	}{
		"in time":       {0.5, 2, 1000, 0.52},
		"late":          {0.5, 2.001, 1000, 0.25},
		"a fifth":       {1, 3, 200, math.Exp2(-0.2)},
		"at the floor":  {brakeFloor, 60, 1000, brakeFloor},
		"at the top":    {0.99, 0, 1000, 1},
		"a long pause":  {0.5, 0, 3_600_000, 0.52},
		"late, a pause": {0.5, 60, 3_600_000, 0.25},
		"back":          {0.5, 60, -5000, 0.5},
	} {
		r := room{saved: store.Saved{Brake: tt.brake, LagMS: int64(tt.lag * 1000)}}
		if r.adjustBrake(tt.dt); math.Abs(r.saved.Brake-tt.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", what, r.saved.Brake, tt.want)
		}
	}
}

// Turns come out of the credit first, and then out of what the operator gave.
func TestSpend(t *testing.T) {
	for what, tt := range map[string]struct {
		room   room
		n      int64
		credit float64
		extra  int64
	}{
		"credit":               {room{def: Definition{RatePerMin: 60}, saved: store.Saved{Credit: 3.5, Extra: 2}}, 3, 0.5, 2},
		"both":                 {room{def: Definition{RatePerMin: 60}, saved: store.Saved{Credit: 1.5, Extra: 2}}, 2, 0.5, 1},
		"by hand":              {room{saved: store.Saved{Extra: 5}}, 3, 0, 2},
		"nothing is kept back": {room{def: Definition{Capacity: 5}, saved: store.Saved{Extra: 5}}, 1, 0, 0},
	} {
		if tt.room.spend(tt.n); tt.room.saved.Credit != tt.credit || tt.room.saved.Extra != tt.extra {
			t.Errorf("%s: credit %v, extra %d", what, tt.room.saved.Credit, tt.room.saved.Extra)
		}
	}
}

// A claim is admitted within capacity and rate.
func TestHasRoom(t *testing.T) {
	for _, tt := range []struct {
		capacity, rate  int
		active, claimed int64
		want            bool
	}{{0, 0, 1e6, 1e6, true}, {3, 0, 2, 9, true}, {3, 0, 3, 0, false}, {0, 3, 9, 2, true}, {0, 3, 0, 3, false}, {3, 3, 2, 2, true}} {
		r := room{def: Definition{Capacity: tt.capacity, RatePerMin: tt.rate}}
		if got := r.belowLimits(tt.active, tt.claimed); got != tt.want {
			t.Errorf("%+v: %t", tt, got)
		}
	}
}
