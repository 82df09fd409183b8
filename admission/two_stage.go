package admission

// A twoStage counts units in a base window first, and further units in a sliding log. lua/base.lua is the same in Lua.
type twoStage struct {
	base *fixedWindow
	log  *slidingLog
}

// read returns how cost stands at now, without changes.
func (s twoStage) read(now, window int64, b *Base, limit, cost int) standing {
	base, log := s.base.read(now, &b.Window, b.Limit, cost), s.log.read(now, window, limit, cost)
	both := standing{remaining: base.remaining + log.remaining, resetAfter: max(base.resetAfter, log.resetAfter)}
	switch {
	case base.reason == "" || log.reason == "":
	case base.reason == CostAboveLimit && log.reason == CostAboveLimit:
		both.reason = CostAboveLimit
	case base.reason == CostAboveLimit:
		both.reason, both.retryAfter = RateLimited, log.retryAfter
	case log.reason == CostAboveLimit:
		both.reason, both.retryAfter = RateLimited, base.retryAfter
	default:
		both.reason, both.retryAfter = RateLimited, min(base.retryAfter, log.retryAfter)
	}
	return both
}

// charge counts cost units, for which there is room in one of the stages.
func (s twoStage) charge(now, window int64, b *Base, limit, cost int) (_ standing, stamp int64) {
	first, second := s.base.read(now, &b.Window, b.Limit, cost), s.log.read(now, window, limit, cost)
	if first.reason == "" {
		first, stamp = s.base.charge(now, &b.Window, b.Limit, cost)
		stamp = -stamp // the sign records which stage counted
	} else {
		second, stamp = s.log.charge(now, window, limit, cost)
	}
	return standing{remaining: first.remaining + second.remaining, resetAfter: max(first.resetAfter, second.resetAfter)}, stamp
}

// refund takes back up to cost units counted under stamp.
func (s twoStage) refund(cost int, stamp int64) {
	if stamp < 0 {
		s.base.refund(cost, -stamp)
	} else {
		s.log.refund(cost, stamp)
	}
}
