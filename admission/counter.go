package admission

// A counter is what a MemoryStore keeps of one tally: the state of its algorithm, or the answers to a subject's requests. The zero
// value has counted nothing.
//
// It has 128 bytes, of which a log needs the first half, one cache line: a decision waits for memory more than for anything else.
type counter struct {
	id       counterID // 0 of none
	ends     int64     // µs: nothing counts any more from then on
	log      slidingLog
	pair     slidingCounter
	fixed    fixedWindow
	schedule gcra
	answers  *answers // nil, except under a Tally.Records
	place    int32    // in the shard's queue, from 1 on; 0 is not in it
	used     uint8    // share of the limit when it was counted last, of 255; 0 for answers
}

// read tells how t stands at now and changes nothing.
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

// charge counts t, for which there is room, at now.
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

// countRejected counts t at now, whether there is room or not.
func (c *counter) countRejected(now int64, t *Tally) {
	switch window := t.Window.Length.Microseconds(); t.Algorithm {
	case SlidingCounter:
		c.pair.countRejected(now, window, t.Cost)
	case FixedWindow:
		c.fixed.countRejected(now, &t.Window, t.Cost)
	case GCRA:
		c.schedule.countRejected(now, intervalOf(t.Window.Length, t.Limit), t.burst(), t.Cost)
	default: // the second stage, of two
		c.log.countRejected(now, window, t.Limit, t.Cost)
	}
}

// refund takes back what was counted for t under stamp.
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

// measure notes which share of t's limit is used at now.
func (c *counter) measure(now int64, t *Tally) {
	c.used = shareOf(t.most()-c.read(now, t).remaining, t.most())
}

// endsFor is when nothing counts any more that was counted for t.
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

// most is how many units t lets a subject have at once.
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

// shareOf returns which part of most is used, of 255.
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
