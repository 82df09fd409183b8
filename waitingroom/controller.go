package waitingroom

import (
	"math"
	"time"
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

// facts are counts of a room's places at a tick.
type facts struct {
	open, openUnits     int64 // turns that can still be claimed
	active, activeUnits int64 // passes that can still be used
	claimed             int64 // in the last minute
	fresh               int64 // open turns younger than claimDelay
	given, taken        int64 // turns given from claimDelay + a minute to claimDelay ago, and how many of those were claimed
	lapsing             int64 // places that lapsed since the last tick
	over, used          int64 // turns whose time to claim ended in the last minute, and how many of those were claimed
}

// claimedPart returns which part of the turns is claimed.
func (f *facts) claimedPart() float64 {
	if f.given < fewTurns {
		return 1
	}
	return math.Max(float64(f.taken)/float64(f.given), 1.0/maxBoost)
}

// usedPart returns which part of the turns is claimed at all. Passes count as used: they may be until they end.
func (f *facts) usedPart() float64 {
	if f.over < fewTurns {
		return 1
	}
	return math.Max(float64(f.used)/float64(f.over), 0.1)
}

// The brake. The part of its turns that a room gives is halved each second while commits are too slow, and grows by brakeRise each second
// when they are not: additive increase, multiplicative decrease (Chiu and Jain 1989), as TCP shares a link. It acts with the delay with which
// people order, so it swings between too slow and too fast.
const (
	commitWithin = 2 * time.Second // the time in which accepted orders should be committed
	brakeFloor   = 1.0 / maxTurns  // a turn a tick
	brakeRise    = 0.02
)

// adjustBrake moves the brake, dt ms after the last time.
func (r *room) adjustBrake(dt int64) {
	seconds := float64(min(max(dt, 0), 1000)) / 1000
	if r.lagMS > commitWithin.Milliseconds() {
		r.brake = max(brakeFloor, r.brake*math.Exp2(-seconds))
		return
	}
	r.brake = min(1, r.brake+brakeRise*seconds)
}

// budget returns how many turns may be given now, and units to be promised to them. It adds dt to the room's credit. In a room without a
// sale units is as many as turns could need.
func (r *room) budget(f *facts, dt int64) (turns, units int64) {
	turns, units = maxTurns, math.MaxInt64
	if r.onlyAdvance() {
		turns = 0
	}
	part := f.claimedPart()
	if rate := float64(r.def.RatePerMin); rate > 0 {
		// Unclaimed turns do not count against the rate, so others are given for them. Claims are counted when they are
		// made, and refused above the rate, so this only has to be about right.
		perMS := rate / 60_000 / part * r.brake
		r.credit = math.Min(r.credit+perMS*float64(max(dt, 0)), 1+2000*perMS)
		turns = min(turns, int64(r.credit), int64(rate-float64(f.claimed)-float64(f.fresh)*part))
	}
	if r.extra > 0 {
		turns = min(maxTurns, max(turns, 0)+r.extra)
	}
	if r.def.Capacity > 0 {
		turns = min(turns, int64(r.def.Capacity)-f.active-int64(math.Ceil(float64(f.open)*part)))
	}
	if r.def.Sale != "" {
		turns = min(turns, int64(math.Ceil(maxTurns*r.brake)))
		free := float64(r.free)
		if r.def.Bound == BoundExpected {
			free /= f.usedPart()
		}
		units = int64(free) - f.openUnits - f.activeUnits
	}
	return max(turns, 0), max(units, 0)
}

// onlyAdvance reports whether turns are given by Advance only.
func (r *room) onlyAdvance() bool {
	return r.def.Sale == "" && r.def.RatePerMin == 0 && r.def.Capacity == 0
}

// spend takes n turns from the credit, and the rest from what the operator gave.
func (r *room) spend(n int64) {
	credit := min(n, int64(r.credit))
	r.credit -= float64(credit)
	r.extra = max(0, r.extra-(n-credit))
	if r.def.RatePerMin == 0 && !r.onlyAdvance() {
		r.extra = 0 // nothing was kept back
	}
}

// belowLimits reports whether a claim may be admitted beside those that were.
func (r *room) belowLimits(active, claimed int64) bool {
	return (r.def.Capacity == 0 || active < int64(r.def.Capacity)) && (r.def.RatePerMin == 0 || claimed < int64(r.def.RatePerMin))
}
