package waitingroom

import (
	"math"
	"slices"
	"time"
)

// progress is what this process has seen of a lane's cursor while people waited: the source of ETAs.
type progress struct {
	at     []int64 // room time, one a second
	served []int64

	slow, fast float64 // turns a second: the 10th and the 90th percentile of the last minutes; 0: not known
}

const (
	progressFor  = 5 * time.Minute
	etaFromTurns = 20
	etaFrom      = 40 * time.Second // in which the controller measures which part of the turns is claimed
	etaWindow    = 20 * time.Second
	etaSpread    = 0.7
)

// observe returns p with what a newer copy of the room shows. It begins anew where the past does not predict the turns to come: before the
// start, while no visitor waits, and after a change of the bounds or the share. Room time stands still while the room is held.
func (p *progress) observe(old, r *room, lane int) *progress {
	before, now := &old.saved.Lanes[lane], &r.saved.Lanes[lane]
	switch r.phase(r.saved.Now) {
	case PhaseHeld, PhaseRecovering:
		return p
	case PhaseServing:
		if now.Served < now.Tail.Joined && before.Share == now.Share && old.def.RatePerMin == r.def.RatePerMin &&
			old.def.Capacity == r.def.Capacity {
			return p.add(r.roomTime(r.saved.Now), now.Served)
		}
	}
	return &progress{}
}

// add returns p with a further sample.
func (p *progress) add(rt, served int64) *progress {
	n := len(p.at)
	if n > 0 && rt-p.at[n-1] < time.Second.Milliseconds() {
		return p
	}
	from := 0
	for from < n && rt-p.at[from] > progressFor.Milliseconds() {
		from++
	}
	next := &progress{at: append(slices.Clone(p.at[from:]), rt), served: append(slices.Clone(p.served[from:]), served)}
	if served-next.served[0] >= etaFromTurns && rt-next.at[0] >= etaFrom.Milliseconds() {
		next.slow, next.fast = next.rates()
	}
	return next
}

// rates returns the 10th and the 90th percentile of the rates of all windows.
func (p *progress) rates() (slow, fast float64) {
	var rates []float64
	from := 0
	for i, at := range p.at {
		for from < i && at-p.at[from+1] >= etaWindow.Milliseconds() {
			from++
		}
		if passed := at - p.at[from]; passed >= etaWindow.Milliseconds() {
			rates = append(rates, float64(p.served[i]-p.served[from])*1000/float64(passed))
		}
	}
	slices.Sort(rates)
	return rates[len(rates)/10], rates[len(rates)*9/10]
}

// eta returns the range of the time until the turn of a place with so many places and positions of its lane in front; nil: not
// known. Beyond the stock, no rate predicts a turn. The range is wider for the next places, whose turns may come at random, as
// when visitors leave: the number of turns in the time of n of them then has the standard deviation √n.
func (v *view) eta(lane int, ahead, positions int64) *ETA {
	moved := v.moved[lane]
	if moved.slow <= 0 || v.room.onlyAdvance() || v.room.phase(v.room.saved.Now) != PhaseServing {
		return nil
	}
	if o := v.outlook(lane, ahead); o == OutlookUnlikely || o == OutlookReturns {
		return nil
	}
	turns := float64(positions + 1)
	spread := etaSpread * math.Sqrt(turns)
	return &ETA{
		time.Duration(math.Floor((turns-spread)/moved.fast)) * time.Second,
		time.Duration(math.Ceil((turns+spread)/moved.slow)) * time.Second,
	}
}
