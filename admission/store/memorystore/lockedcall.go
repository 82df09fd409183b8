package memorystore

import (
	"slices"
	"time"

	"github.com/tidegate/tidegate/admission/internal/algorithm"
	"github.com/tidegate/tidegate/admission/store"
)

// A lockedCall is one call that holds the locks of its shards.
type lockedCall struct {
	store   *Store
	call    *store.Call
	now     int64 // µs
	entries []entry
	counts  []store.Count
}

// An entry is the shard and counter of one tally.
type entry struct {
	id    counterID
	shard *shard
	known bool // answered from the record of an earlier request with the same id
	// Counted as rejected.
	rejected bool
}

func (s *entry) find() *counter { return s.shard.table.find(s.id) }

// nothing is the counter that is read for a tally without one.
var nothing counter

// runLocked locks the shards of all entries in a fixed order, which prevents deadlocks.
func (t *lockedCall) runLocked() {
	if len(t.entries) == 1 {
		mu := &t.entries[0].shard.mu
		mu.Lock()
		defer mu.Unlock()
		t.run()
		return
	}
	shards := make([]*shard, 0, len(t.entries))
	for i := range t.entries {
		shards = append(shards, t.entries[i].shard)
	}
	slices.SortFunc(shards, func(a, b *shard) int { return a.number - b.number })
	shards = slices.Compact(shards)
	for _, sh := range shards {
		sh.mu.Lock()
	}
	defer func() {
		for _, sh := range shards {
			sh.mu.Unlock()
		}
	}()
	t.run()
}

func (t *lockedCall) run() {
	t.now = t.store.now()
	at := time.UnixMicro(t.now)
	for i := range t.counts {
		t.counts[i].At = at
	}
	switch t.call.Mode {
	case store.Charge:
		t.charge()
		return
	case store.Refund:
		t.refund()
	case store.Reset:
		t.reset()
	case store.Reject:
		t.reject()
	case store.Add:
		t.add()
	case store.Erase:
		t.erase()
	}
	for i := range t.entries {
		t.read(i)
	}
}

// read computes the count of tally i.
func (t *lockedCall) read(i int) {
	c := t.entries[i].find()
	if c == nil {
		c = &nothing
	}
	s := c.Read(t.now, &t.call.Tallies[i])
	t.put(i, s)
	t.counts[i].Reason = s.Reason
}

func (t *lockedCall) put(i int, r algorithm.Result) {
	c := &t.counts[i]
	c.Remaining = r.Remaining
	c.RetryAfter, c.ResetAfter = time.Duration(r.RetryAfter)*time.Microsecond, time.Duration(r.ResetAfter)*time.Microsecond
}

func (t *lockedCall) charge() {
	// Each charge drops up to two ended counters per shard, so that memory stays bounded without Run too.
	for i := range t.entries {
		t.entries[i].shard.clean(2, t.now)
	}
	for i := range t.entries {
		if t.call.Request != "" && t.recall(i) {
			continue
		}
		t.read(i)
	}
	if store.Fits(t.call.Tallies, t.counts) {
		t.admit()
	} else {
		t.refuse()
	}
	if t.call.Request != "" {
		t.remember()
	}
}

// obtain returns the counter with this id in sh, creating it if necessary.
func (t *lockedCall) obtain(sh *shard, id counterID) *counter {
	if c := sh.table.find(id); c != nil {
		return c
	}
	t.makeRoom(sh, id, 1, 0)
	return sh.table.add(id)
}

// makeRoom drops counters and answers of sh until there is room for so many more. It keeps those of this call, even if the shard is then
// too full.
func (t *lockedCall) makeRoom(sh *shard, id counterID, counters, answers int) {
	for sh.full(counters, answers) {
		if !sh.inspect(t.now) && !t.evict(sh, id, answers > 0) {
			return
		}
	}
}

// evict drops a counter of sh that this call does not use, see shard.evict.
func (t *lockedCall) evict(sh *shard, id counterID, answers bool) bool {
	var few [8]counterID // room for the counters of most calls
	own := few[:0]
	for i := range t.entries {
		tally := &t.call.Tallies[i]
		own = append(own, t.entries[i].id)
		if tally.Strikes != nil {
			own = append(own, t.store.id(tally.Strikes.Key))
		}
		if t.call.Request != "" {
			own = append(own, t.store.id(tally.Records))
		}
	}
	return sh.evict(id, own, answers)
}

// admit counts the request in every tally that has room.
func (t *lockedCall) admit() {
	for i := range t.entries {
		s, tally := &t.entries[i], &t.call.Tallies[i]
		if s.known || t.counts[i].Reason != "" {
			continue
		}
		c := t.obtain(s.shard, s.id)
		var now algorithm.Result
		now, t.counts[i].Stamp = c.Charge(t.now, tally)
		most := algorithm.Capacity(tally)
		c.used = shareOf(most-now.Remaining, most)
		t.put(i, now)
		s.shard.changed(c, c.Ends(tally), t.now)
	}
}

// refuse counts a refused request in the tallies that count refusals.
func (t *lockedCall) refuse() {
	for i := range t.entries {
		if t.entries[i].known {
			continue
		}
		tally, reason := &t.call.Tallies[i], t.counts[i].Reason
		if tally.CountRejected && tally.Limit > 0 {
			t.countRejected(i)
			t.entries[i].rejected = true
			t.read(i)
			if t.counts[i].Reason = reason; reason != store.RateLimited {
				t.counts[i].RetryAfter = 0
			}
		}
		if reason != "" && !tally.Shadow && tally.Strikes != nil {
			t.counts[i].Struck = t.strike(i, 1)
		}
	}
}

func (t *lockedCall) countRejected(i int) {
	sh, tally := t.entries[i].shard, &t.call.Tallies[i]
	c := t.obtain(sh, t.entries[i].id)
	c.CountRejected(t.now, tally)
	c.measure(t.now, tally)
	sh.changed(c, c.Ends(tally), t.now)
}

// strike counts n refusals and reports whether they reach the limit of the strikes.
func (t *lockedCall) strike(i, n int) bool {
	sh, strikes := t.entries[i].shard, t.call.Tallies[i].Strikes
	c := t.obtain(sh, t.store.id(strikes.Key))
	struck, counted, ends := c.Strike(t.now, strikes, n)
	c.used = shareOf(counted, strikes.Limit)
	sh.changed(c, ends, t.now)
	return struck
}

// reject counts requests that were refused without asking the store.
func (t *lockedCall) reject() {
	for i := range t.entries {
		tally := &t.call.Tallies[i]
		if tally.CountRejected && tally.Limit > 0 && tally.Cost > 0 {
			t.countRejected(i)
		}
		if tally.Refusals > 0 && !tally.Shadow && tally.Strikes != nil {
			t.counts[i].Struck = t.strike(i, tally.Refusals)
		}
	}
}

// add counts operations that have already taken place.
func (t *lockedCall) add() {
	for i := range t.entries {
		t.entries[i].shard.clean(2, t.now)
		t.read(i)
	}
	for i := range t.entries {
		if t.counts[i].Reason != "" && t.call.Tallies[i].Limit > 0 {
			t.countRejected(i)
		}
	}
	t.admit()
}

// erase removes the newest units of sliding logs.
func (t *lockedCall) erase() {
	for i := range t.entries {
		tally, sh := &t.call.Tallies[i], t.entries[i].shard
		if c := t.entries[i].find(); c != nil && tally.Limit > 0 && tally.Algorithm == store.SlidingLog {
			c.Erase(tally)
			c.measure(t.now, tally)
			sh.changed(c, c.Ends(tally), t.now)
		}
	}
}

// refund takes back what the stamps, or the recorded answers of the request, identify.
func (t *lockedCall) refund() {
	for i := range t.entries {
		tally := &t.call.Tallies[i]
		stamp, cost := tally.Stamp, tally.Cost
		t.counts[i].Stamp = stamp
		if t.call.Request != "" {
			a := t.answer(i)
			if a == nil {
				t.counts[i].Stamp = 0
				continue
			}
			t.counts[i].Stamp = a.count.Stamp
			stamp, cost = 0, a.cost
			if a.charged {
				stamp, a.charged = a.count.Stamp, false
			}
		}
		sh := t.entries[i].shard
		if c := t.entries[i].find(); c != nil && stamp != 0 {
			c.Refund(t.now, tally, cost, stamp)
			c.measure(t.now, tally)
			sh.changed(c, c.Ends(tally), t.now)
		}
	}
}

// reset drops the counts.
func (t *lockedCall) reset() {
	for i := range t.entries {
		t.forget(i)
		sh := t.entries[i].shard
		if c := t.entries[i].find(); c != nil {
			sh.drop(c)
		}
		if strikes := t.call.Tallies[i].Strikes; strikes != nil {
			if c := sh.table.find(t.store.id(strikes.Key)); c != nil {
				sh.drop(c)
			}
		}
	}
}
