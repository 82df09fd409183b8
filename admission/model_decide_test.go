package admission_test

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
)

// asks reports whether a store is needed to decide req: not if no rule lets anything pass.
func (m *model) asks(req admission.Request) bool {
	return slices.ContainsFunc(m.rules, func(r modelRule) bool { return r.limit > 0 && r.subject(req) != "" })
}

// kept reports whether the store is asked about r.
func (r *modelRule) kept(asked bool) bool { return r.limit > 0 || asked && !r.shadow }

// decide returns the verdicts of all rules on req, whether it is admitted, and what was counted.
func (m *model) decide(req admission.Request, charge bool) (verdicts []admission.Verdict, admitted bool, charges []*modelCharge) {
	admitted = true
	const minute = int64(time.Minute / time.Microsecond)
	var of []*modelRule
	var records []*modelRecord
	var waived []bool
	asked := m.asks(req)
	for i := range m.rules {
		r := &m.rules[i]
		subject := r.subject(req)
		if subject == "" {
			continue
		}
		t := m.tally(r, subject)
		before := *t
		v := m.verdict(r, t, r.cost*req.Cost)
		waived = append(waived, r.waives(req, v))
		var record *modelRecord
		if charge && req.ID != "" && r.kept(asked) {
			record = m.records[modelRequest{modelKey{r.name, subject}, req.ID}]
			if record != nil && (m.now-record.at >= minute || record.free()) {
				record = nil
			}
			if record != nil {
				*t = before // a record is read instead of the counter, which thus does not notice a clock that was set back
				v = record.verdict
				v.Limit, v.Shadow, v.Action = r.limit, r.shadow, r.action(v.Reason) // which are those of today
			}
		}
		admitted = admitted && (v.Admitted || r.shadow || waived[len(waived)-1])
		verdicts, of, records = append(verdicts, v), append(of, r), append(records, record)
	}
	// What is remembered and counted below is as it stands; what is said is that a waived refusal is none.
	defer func() {
		for i := range verdicts {
			if v := &verdicts[i]; waived[i] {
				v.Admitted, v.Reason, v.Action, v.RetryAfter = true, "", rules.Allow, 0
			}
		}
	}()
	if !charge {
		return verdicts, admitted, nil
	}
	for i, r := range of {
		key := modelKey{r.name, r.subject(req)}
		t, v, cost := m.tally(r, key.subject), &verdicts[i], r.cost*req.Cost
		if records[i] != nil {
			if c := records[i].charged; c != nil {
				charges = append(charges, c)
			}
			continue
		}
		var counted *modelCharge
		switch {
		case admitted && v.Admitted:
			counted = m.count(r, t, cost, false)
			counted.key, counted.id = key, req.ID
			charges = append(charges, counted)
			after := m.verdict(r, t, cost)
			v.Remaining, v.ResetAfter = after.Remaining, after.ResetAfter
		case !admitted && r.countRejected && r.limit > 0:
			m.overcount(r, t, cost)
			after := m.verdict(r, t, cost)
			v.Remaining, v.ResetAfter = after.Remaining, after.ResetAfter
			if v.Reason == admission.RateLimited {
				v.RetryAfter = after.RetryAfter
			}
		}
		if req.ID != "" && r.kept(asked) {
			m.records[modelRequest{key, req.ID}] = &modelRecord{m.now, *v, counted, !admitted && r.countRejected && r.limit > 0}
		}
	}
	if !admitted {
		charges = nil
	}
	return verdicts, admitted, charges
}

// overcount counts what has no room: of a log no more than its limit.
func (m *model) overcount(r *modelRule, t *modelTally, cost int) {
	if r.algorithm == store.SlidingLog || r.algorithm == store.TwoStage {
		cost = min(cost, r.limit)
	}
	m.count(r, t, cost, true)
}

// add counts req in every rule.
func (m *model) add(req admission.Request) {
	for i := range m.rules {
		r := &m.rules[i]
		subject := r.subject(req)
		if subject == "" || r.limit == 0 {
			continue
		}
		t, cost := m.tally(r, subject), r.cost*req.Cost
		if m.verdict(r, t, cost).Admitted {
			m.count(r, t, cost, false)
		} else {
			m.overcount(r, t, cost)
		}
	}
}

// erase takes the newest units of sliding logs back.
func (m *model) erase(req admission.Request, units map[string]int) {
	for i := range m.rules {
		r := &m.rules[i]
		if r.algorithm != store.SlidingLog || r.limit == 0 || units[r.name] < 1 {
			continue
		}
		t := m.tally(r, r.subject(req))
		slices.Sort(t.times)
		t.times = t.times[max(0, len(t.times)-r.limit):] // no more than a limit is of use
		t.times = t.times[:max(0, len(t.times)-units[r.name])]
	}
}

// free reports whether r admitted without counting.
func (r *modelRecord) free() bool { return r.verdict.Admitted && !r.rejected && r.charged == nil }

// refund takes back what a charge counted: with an id by what is remembered of it.
func (m *model) refund(charges []*modelCharge) (known bool) {
	known = len(charges) == 0
	for _, c := range charges {
		if c.id != "" {
			record := m.records[modelRequest{c.key, c.id}]
			if record == nil || record.charged == nil || m.now-record.at >= int64(time.Minute/time.Microsecond) {
				continue
			}
			c = record.charged // it may be a later one, when the first had been forgotten
		}
		known = true
		if !c.refund {
			c.refund = true
			m.takeBack(c)
		}
	}
	return known
}

// refundRequest takes back what the charge with the id of req counted, and reports whether one is remembered.
func (m *model) refundRequest(req admission.Request) (known bool) {
	for i := range m.rules {
		r := &m.rules[i]
		record := m.records[modelRequest{modelKey{r.name, r.subject(req)}, req.ID}]
		if record != nil && record.charged != nil && m.now-record.at < int64(time.Minute/time.Microsecond) {
			known = true
			m.refund([]*modelCharge{record.charged})
		}
	}
	return known
}

// reset forgets what the rule of this name, or every one, counted for the subject of req.
func (m *model) reset(req admission.Request, name string) {
	for i := range m.rules {
		if r := &m.rules[i]; cmp.Or(name, r.name) == r.name {
			key := modelKey{r.name, r.subject(req)}
			delete(m.tallies, key)
			maps.DeleteFunc(m.records, func(q modelRequest, _ *modelRecord) bool { return q.modelKey == key })
		}
	}
}
