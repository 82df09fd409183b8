package waitingroom

import (
	"math"
	"time"

	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// The controller decides how many turns are given in a tick.

const (
	tickEvery        = 200 * time.Millisecond
	maxTurns         = 200 // in a tick
	passSlack        = 2 * time.Second
	claimDelay       = 5 * time.Second  // an honest visitor claims a turn within it
	claimRetryWithin = 15 * time.Second // a claim that had to wait keeps its turn for so long
	settleBack       = 15 * time.Second // a pass that was used in its last moment is noticed so late
	measured         = time.Minute
	fewTurns         = 20 // fewer say nothing about how many are claimed
	maxBoost         = 4
)

// claimedPart returns which part of the turns is claimed.
func claimedPart(f *store.Counts) float64 {
	if f.Given < fewTurns {
		return 1
	}
	return math.Max(float64(f.Taken)/float64(f.Given), 1.0/maxBoost)
}

// usedPart returns which part of the turns is claimed at all. Passes count as used: they may be until they end.
func usedPart(f *store.Counts) float64 {
	if f.Over < fewTurns {
		return 1
	}
	return math.Max(float64(f.Used)/float64(f.Over), 0.1)
}

// The brake. The part of its turns that a room gives is halved each second while commits are too slow, and grows by brakeRise each second
// when they are not: additive increase, multiplicative decrease (Chiu and Jain 1989), as TCP shares a link. It acts with the
// delay with which people order, so it swings between too slow and too fast.
const (
	commitWithin = 2 * time.Second // the time in which accepted orders should be committed
	brakeFloor   = 1.0 / maxTurns  // a turn a tick
	brakeRise    = 0.02
)

// adjustBrake moves the brake, dt ms after the last time.
func (r *room) adjustBrake(dt int64) {
	seconds := float64(min(max(dt, 0), 1000)) / 1000
	if r.saved.LagMS > commitWithin.Milliseconds() {
		r.saved.Brake = max(brakeFloor, r.saved.Brake*math.Exp2(-seconds))
		return
	}
	r.saved.Brake = min(1, r.saved.Brake+brakeRise*seconds)
}

// budget returns how many turns may be given now, and units to be promised to them. It adds dt to the room's credit. In a room without a
// sale units is as many as turns could need.
func (r *room) budget(f *store.Counts, dt int64) (turns, units int64) {
	turns, units = maxTurns, math.MaxInt64
	if r.onlyAdvance() {
		turns = 0
	}
	part := claimedPart(f)
	if rate := float64(r.def.RatePerMin); rate > 0 {
		// Unclaimed turns do not count against the rate, so others are given for them. Claims are counted when they are
		// made, and refused above the rate, so this only has to be about right.
		perMS := rate / 60_000 / part * r.saved.Brake
		r.saved.Credit = math.Min(r.saved.Credit+perMS*float64(max(dt, 0)), 1+2000*perMS)
		turns = min(turns, int64(r.saved.Credit), int64(rate-float64(f.Claimed)-float64(f.Fresh)*part))
	}
	if r.saved.Extra > 0 {
		turns = min(maxTurns, max(turns, 0)+r.saved.Extra)
	}
	if r.def.Capacity > 0 {
		turns = min(turns, int64(r.def.Capacity)-f.Active-int64(math.Ceil(float64(f.Open)*part)))
	}
	if r.def.Sale != "" {
		turns = min(turns, int64(math.Ceil(maxTurns*r.saved.Brake)))
		free := float64(r.saved.Free)
		if r.def.Bound == BoundExpected {
			free /= usedPart(f)
		}
		units = int64(free) - f.OpenUnits - f.ActiveUnits
	}
	return max(turns, 0), max(units, 0)
}

// onlyAdvance reports whether turns are given by Advance only.
func (r *room) onlyAdvance() bool {
	return r.def.Sale == "" && r.def.RatePerMin == 0 && r.def.Capacity == 0
}

// spend takes n turns from the credit, and the rest from what the operator gave.
func (r *room) spend(n int64) {
	credit := min(n, int64(r.saved.Credit))
	r.saved.Credit -= float64(credit)
	r.saved.Extra = max(0, r.saved.Extra-(n-credit))
	if r.def.RatePerMin == 0 && !r.onlyAdvance() {
		r.saved.Extra = 0 // nothing was kept back
	}
}

// belowLimits reports whether a claim may be admitted beside those that were.
func (r *room) belowLimits(active, claimed int64) bool {
	return (r.def.Capacity == 0 || active < int64(r.def.Capacity)) && (r.def.RatePerMin == 0 || claimed < int64(r.def.RatePerMin))
}
