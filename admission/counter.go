package admission

// A counter is the state of one tally in a MemoryStore: the state of its algorithm, or the recorded answers to a subject's requests. The
// zero value has counted nothing.
//
// It has 128 bytes. A log needs only the first 64 of them, one cache line, because memory access dominates the cost of a decision.
type counter struct {
	id       counterID // 0: no counter
	ends     int64     // µs: from then on nothing counts
	log      slidingLog
	pair     slidingCounter
	fixed    fixedWindow
	schedule gcra
	answers  *answers // nil, except under a Tally.Records
	place    int32    // position in the shard's queue, from 1; 0: not queued
	used     uint8    // used share of the limit at the last count, in 1/255; 0 for answers
}

// read returns how t stands at now, without changes.
func (c *counter) read(now int64, t *Tally) standing {
	if t.Limit <= 0 {
		return standing{reason: CostAboveLimit}
	}
	switch window := t.Window.Length.Microseconds(); t.Algorithm {
	case SlidingCounter:
		return c.pair.read(now, window, t.Limit, t.Cost)
	case FixedWindow:
		return c.fixed.read(now, &t.Window, t.Limit, t.Cost)
	case GCRA:
		return c.schedule.read(now, intervalOf(t.Window.Length, t.Limit), t.burst(), t.Cost)
	case TwoStage:
		return twoStage{&c.fixed, &c.log}.read(now, window, t.Base, t.Limit, t.Cost)
	default:
		return c.log.read(now, window, t.Limit, t.Cost)
	}
}

// charge counts t at now; the caller has checked that there is room.
func (c *counter) charge(now int64, t *Tally) (s standing, stamp int64) {
	switch window := t.Window.Length.Microseconds(); t.Algorithm {
	case SlidingCounter:
		return c.pair.charge(now, window, t.Limit, t.Cost)
	case FixedWindow:
		return c.fixed.charge(now, &t.Window, t.Limit, t.Cost)
	case GCRA:
		return c.schedule.charge(now, intervalOf(t.Window.Length, t.Limit), t.burst(), t.Cost)
	case TwoStage:
		return twoStage{&c.fixed, &c.log}.charge(now, window, t.Base, t.Limit, t.Cost)
	default:
		return c.log.charge(now, window, t.Limit, t.Cost)
	}
}

// countRejected counts t at now, even beyond the limit.
func (c *counter) countRejected(now int64, t *Tally) {
	switch window := t.Window.Length.Microseconds(); t.Algorithm {
	case SlidingCounter:
		c.pair.countRejected(now, window, t.Cost)
	case FixedWindow:
		c.fixed.countRejected(now, &t.Window, t.Cost)
	case GCRA:
		c.schedule.countRejected(now, intervalOf(t.Window.Length, t.Limit), t.burst(), t.Cost)
	default: // TwoStage: the second stage
		c.log.countRejected(now, window, t.Limit, t.Cost)
	}
}

// refund takes back the units counted for t under stamp.
func (c *counter) refund(now int64, t *Tally, cost int, stamp int64) {
	switch t.Algorithm {
	case SlidingCounter:
		c.pair.refund(cost, stamp)
	case FixedWindow:
		c.fixed.refund(cost, stamp)
	case GCRA:
		c.schedule.refund(now, cost, stamp)
	case TwoStage:
		twoStage{&c.fixed, &c.log}.refund(cost, stamp)
	default:
		c.log.refund(cost, stamp)
	}
}

// measure sets used to the share of t's limit in use at now.
func (c *counter) measure(now int64, t *Tally) {
	c.used = shareOf(t.most()-c.read(now, t).remaining, t.most())
}

// endsFor returns when the units counted for t no longer count.
func (c *counter) endsFor(t *Tally) int64 {
	switch window := t.Window.Length.Microseconds(); t.Algorithm {
	case SlidingCounter:
		return c.pair.ends(window)
	case FixedWindow:
		return c.fixed.end
	case GCRA:
		return c.schedule.tat
	case TwoStage:
		return max(c.fixed.end, c.log.ends(window))
	default:
		return c.log.ends(window)
	}
}

// most returns how many units t admits at once.
func (t *Tally) most() int {
	switch t.Algorithm {
	case GCRA:
		return t.burst()
	case TwoStage:
		return t.Base.Limit + t.Limit
	default:
		return t.Limit
	}
}

// shareOf returns used/most in 1/255.
func shareOf(used, most int) uint8 {
	if used >= most {
		return 255
	}
	return uint8(255 * float64(used) / float64(most))
}

func (t *Tally) burst() int {
	if t.Burst > 0 {
		return t.Burst
	}
	return t.Limit
}
