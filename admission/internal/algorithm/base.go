package algorithm

import (
	"fmt"

	"github.com/tidegate/tidegate/admission/store"
)

// A twoStage counts units in a base window first, and further units in a sliding log. redisstore/lua/base.lua is the same in Lua.
type twoStage struct {
	base *fixedWindow
	log  *slidingLog
}

func init() {
	register(Algorithm{
		Name: store.TwoStage, counter: inStages{}, Base: true, Uses: []store.Algorithm{store.SlidingLog, store.FixedWindow},
		Check: func(w Window) string {
			if w.Highest > store.MaxLogged {
				return fmt.Sprintf("the limit after the base should be at most %d, here is %d", store.MaxLogged, w.Highest)
			}
			return ""
		},
	})
}

// inStages is the counter of store.TwoStage.
type inStages struct{}

func stagesOf(s *State) twoStage { return twoStage{(*fixedWindow)(&s.cell), &s.log} }

func (inStages) read(s *State, now int64, t *store.Tally) Result {
	return stagesOf(s).read(now, micros(t), t.Base, t.Limit, t.Cost)
}

func (inStages) charge(s *State, now int64, t *store.Tally) (Result, int64) {
	return stagesOf(s).charge(now, micros(t), t.Base, t.Limit, t.Cost)
}

// countRejected counts in the second stage.
func (inStages) countRejected(s *State, now int64, t *store.Tally) {
	s.log.countRejected(now, micros(t), t.Limit, t.Cost)
}

func (inStages) refund(s *State, _ int64, _ *store.Tally, cost int, stamp int64) {
	stagesOf(s).refund(cost, stamp)
}

func (inStages) ends(s *State, t *store.Tally) int64 { return max(s.cell.at, s.log.ends(micros(t))) }

// read returns how cost stands at now.
func (s twoStage) read(now, window int64, b *store.Base, limit, cost int) Result {
	base, log := s.base.read(now, &b.Window, b.Limit, cost), s.log.read(now, window, limit, cost)
	both := Result{Remaining: base.Remaining + log.Remaining, ResetAfter: max(base.ResetAfter, log.ResetAfter)}
	switch {
	case base.Reason == "" || log.Reason == "":
	case base.Reason == store.CostAboveLimit && log.Reason == store.CostAboveLimit:
		both.Reason = store.CostAboveLimit
	case base.Reason == store.CostAboveLimit:
		both.Reason, both.RetryAfter = store.RateLimited, log.RetryAfter
	case log.Reason == store.CostAboveLimit:
		both.Reason, both.RetryAfter = store.RateLimited, base.RetryAfter
	default:
		both.Reason, both.RetryAfter = store.RateLimited, min(base.RetryAfter, log.RetryAfter)
	}
	return both
}

// charge counts cost units, for which there is room in one of the stages.
func (s twoStage) charge(now, window int64, b *store.Base, limit, cost int) (_ Result, stamp int64) {
	first, second := s.base.read(now, &b.Window, b.Limit, cost), s.log.read(now, window, limit, cost)
	if first.Reason == "" {
		first, stamp = s.base.charge(now, &b.Window, b.Limit, cost)
		stamp = -stamp // the sign records which stage counted
	} else {
		second, stamp = s.log.charge(now, window, limit, cost)
	}
	return Result{Remaining: first.Remaining + second.Remaining, ResetAfter: max(first.ResetAfter, second.ResetAfter)}, stamp
}

// refund takes back up to cost units counted under stamp.
func (s twoStage) refund(cost int, stamp int64) {
	if stamp < 0 {
		s.base.refund(cost, -stamp)
	} else {
		s.log.refund(cost, stamp)
	}
}
