package admission_test

import (
	"slices"
	"sort"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
)

// A model decides by the definitions: it keeps every unit that was ever counted and counts those that are in the window. It shares
// no code with the package, and neither its arithmetic: how long to wait it finds by trying.
type model struct {
	now     int64 // µs
	rules   []modelRule
	tallies map[modelKey]*modelTally
	records map[modelRequest]*modelRecord
}

type modelRule struct {
	name          string
	algorithm     store.Algorithm
	counts        string // whom, as in the rules file
	subject       func(admission.Request) string
	limit, burst  int
	window        int64  // µs; of a calendar's unit the usual length
	unit          string // of the calendar
	zone          *time.Location
	base          int
	baseWindow    int64 // µs
	cost          int
	countRejected bool
	shadow        bool
	challenge     bool // on_exceed
}

type modelKey struct{ rule, subject string }

type modelRequest struct {
	modelKey
	id string
}

// A modelRecord is what was answered to a request with an id.
type modelRecord struct {
	at      int64
	verdict admission.Verdict
	charged *modelCharge // nil: it was not
	// It was counted as rejected.
	rejected bool
}

// A modelCharge is what was counted, and where.
type modelCharge struct {
	key    modelKey
	id     string
	cost   int
	stage  int   // 1: in the base
	at     int64 // time, number of the span, end of the window, or theoretical arrival time
	refund bool  // has been taken back
}

// A modelTally is all that one rule counted for one subject.
type modelTally struct {
	times []int64 // of units: sliding log, second stage

	bucket int64           // sliding counter: the last one counted in
	spans  map[int64]int64 // units of each

	end   int64           // fixed window, base: of the last one opened
	units map[int64]int64 // of each window

	water, since, drop int64 // gcra as a bucket: what was in it when, and how much of it a unit is
}

func newModelTally() *modelTally {
	return &modelTally{spans: map[int64]int64{}, units: map[int64]int64{}}
}

func (m *model) tally(r *modelRule, subject string) *modelTally {
	key := modelKey{r.name, subject}
	if m.tallies[key] == nil {
		m.tallies[key] = newModelTally()
	}
	return m.tallies[key]
}

// A stage is one count that has room or not.
type stage struct {
	room func(at int64) int // units that fit at a time
	now  int64              // the time it is there: it may wait for a clock that has stepped back
	all  int                // units that fit where nothing counts
}

func (m *model) stages(r *modelRule, t *modelTally) []stage {
	switch r.algorithm {
	case store.SlidingCounter:
		return []stage{m.counterStage(r, t)}
	case store.FixedWindow:
		return []stage{m.fixedStage(t, r.limit, r.window, r.unit)}
	case store.GCRA:
		return []stage{m.bucketStage(r, t)}
	case store.TwoStage:
		return []stage{m.fixedStage(t, r.base, r.baseWindow, ""), m.logStage(r, t)}
	default:
		return []stage{m.logStage(r, t)}
	}
}

func (m *model) logStage(r *modelRule, t *modelTally) stage {
	now := m.now
	for _, unit := range t.times {
		now = max(now, unit)
	}
	return stage{func(at int64) int {
		n := 0
		for _, unit := range t.times {
			if unit+r.window > at {
				n++
			}
		}
		return max(0, r.limit-n)
	}, now, r.limit}
}

func (m *model) counterStage(r *modelRule, t *modelTally) stage {
	w := r.window
	return stage{func(at int64) int {
		k := at / w
		left := w - at%w
		used := t.spans[k] + (t.spans[k-1]*left+w-1)/w // rounded up
		return max(0, r.limit-int(used))
	}, max(m.now, t.bucket*w), r.limit}
}

func (m *model) fixedStage(t *modelTally, limit int, window int64, unit string) stage {
	now := m.now
	if now < t.end && unit == "" {
		now = max(now, t.end-window)
	}
	return stage{func(at int64) int {
		if at >= t.end {
			return limit
		}
		return max(0, limit-int(t.units[t.end]))
	}, now, limit}
}

func (m *model) bucketStage(r *modelRule, t *modelTally) stage {
	water, drop := m.water(r, t)
	return stage{func(at int64) int {
		return int((int64(r.burst)*drop - max(0, water-(at-m.now))) / drop)
	}, m.now, r.burst}
}

// water is what is in the bucket, which holds no more than a burst, and how much a unit is. After a step back of the clock by more than two
// windows the bucket is full and drains from then on.
func (m *model) water(r *modelRule, t *modelTally) (water, drop int64) {
	drop = (r.window + int64(r.limit) - 1) / int64(r.limit)
	if full := int64(r.burst) * t.drop; t.water-(m.now-t.since) > max(full, 2*r.window) {
		t.water, t.since = full, m.now
	}
	water = max(0, t.water-(m.now-t.since))
	if t.drop != drop && water > 0 {
		water = (water*drop + t.drop - 1) / t.drop
	}
	return min(water, int64(r.burst)*drop), drop
}

// first returns the first time not before from when there is room for cost, or -1.
func (s *stage) first(cost int) int64 {
	const far = int64(3000 * time.Hour / time.Microsecond)
	if cost > s.all {
		return -1
	}
	return s.now + int64(sort.Search(int(far), func(wait int) bool { return s.room(s.now+int64(wait)) >= cost }))
}

// verdict is how cost stands in r.
func (m *model) verdict(r *modelRule, t *modelTally, cost int) admission.Verdict {
	v := admission.Verdict{
		Rule: r.name, Algorithm: r.algorithm, Window: time.Duration(r.window) * time.Microsecond, Limit: r.limit, Shadow: r.shadow,
	}
	wait := int64(-1)
	if r.limit > 0 {
		for _, s := range m.stages(r, t) {
			v.Remaining += s.room(s.now)
			v.ResetAfter = max(v.ResetAfter, micros(s.first(s.all)-s.now))
			if at := s.first(cost); at >= 0 && (wait < 0 || at-s.now < wait) {
				wait = at - s.now
			}
		}
	}
	switch {
	case wait < 0:
		v.Reason = admission.CostAboveLimit
	case wait > 0:
		v.Reason, v.RetryAfter = admission.RateLimited, micros(wait)
	}
	v.Action = r.action(v.Reason)
	v.Admitted = v.Reason == ""
	return v
}

// action is what r asks for where there is this reason to refuse.
func (r *modelRule) action(reason admission.Reason) rules.Action {
	switch {
	case reason == "":
		return rules.Allow
	case reason == admission.RateLimited && r.challenge:
		return rules.Challenge
	}
	return rules.Deny
}

// waives reports whether r would answer with a challenge, which a solved request need not fear. A cost above the limit is none.
func (r *modelRule) waives(req admission.Request, today admission.Verdict) bool {
	return req.Solved && r.challenge && today.Reason != admission.CostAboveLimit
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// count counts cost units and returns where; rejected ones without regard to room.
func (m *model) count(r *modelRule, t *modelTally, cost int, rejected bool) *modelCharge {
	stages := m.stages(r, t)
	charge := &modelCharge{cost: cost}
	switch {
	case r.algorithm == store.SlidingCounter:
		t.bucket = stages[0].now / r.window
		t.spans[t.bucket] += int64(cost)
		charge.at = t.bucket
	case r.algorithm == store.GCRA:
		water, drop := m.water(r, t)
		if water += int64(cost) * drop; rejected {
			water = min(water, int64(r.burst)*drop)
		}
		t.water, t.since, t.drop = water, m.now, drop
		charge.at = m.now + water
	case r.algorithm == store.FixedWindow, r.algorithm == store.TwoStage && !rejected && stages[0].room(stages[0].now) >= cost:
		if r.algorithm == store.TwoStage {
			charge.stage = 1
		}
		if m.now >= t.end {
			t.end = m.endOf(r)
		}
		t.units[t.end] += int64(cost)
		charge.at = t.end
	default:
		log := stages[len(stages)-1]
		// A unit that has left the window when another is counted has left for good.
		t.times = slices.DeleteFunc(t.times, func(unit int64) bool { return unit+r.window <= log.now })
		for range cost {
			t.times = append(t.times, log.now)
		}
		if rejected && len(t.times) > r.limit {
			t.times = t.times[len(t.times)-r.limit:]
		}
		charge.at = log.now
	}
	return charge
}

// endOf is the end of a window that is opened now.
func (m *model) endOf(r *modelRule) int64 {
	switch {
	case r.algorithm == store.TwoStage:
		return m.now + r.baseWindow
	case r.unit == "":
		return m.now + r.window
	}
	shown := func(at int64) string {
		return time.UnixMicro(at).In(r.zone).Format(map[string]string{
			"minute": "2006-01-02 15:04 Z07", "hour": "2006-01-02 15 Z07", "day": "2006-01-02", "month": "2006-01",
		}[r.unit])
	}
	const step = int64(time.Minute / time.Microsecond)
	at := m.now - m.now%step
	for shown(at) == shown(m.now) {
		at += step
	}
	return at
}

// takeBack takes a charge back from what is left of it.
func (m *model) takeBack(c *modelCharge) {
	t := m.tallies[c.key]
	if t == nil {
		return
	}
	i := slices.IndexFunc(m.rules, func(r modelRule) bool { return r.name == c.key.rule })
	switch r := &m.rules[i]; {
	case r.algorithm == store.SlidingCounter:
		t.spans[c.at] = max(0, t.spans[c.at]-int64(c.cost))
	case r.algorithm == store.GCRA:
		t.water -= min(int64(c.cost)*t.drop, max(0, c.at-m.now))
	case r.algorithm == store.FixedWindow, c.stage == 1:
		t.units[c.at] = max(0, t.units[c.at]-int64(c.cost))
		if t.end == c.at && t.units[c.at] == 0 {
			t.end = 0 // nobody has opened it
		}
	default:
		for range c.cost {
			if unit := slices.Index(t.times, c.at); unit >= 0 {
				t.times = slices.Delete(t.times, unit, unit+1)
			}
		}
	}
}
