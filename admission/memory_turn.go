package admission

import (
	"slices"
	"time"
)

// A turn is one call that holds the locks of its shards.
type turn struct {
	store  *MemoryStore
	call   *Call
	now    int64 // µs
	seats  []seat
	counts []Count
}

// A seat is the shard and counter of one tally.
type seat struct {
	id    counterID
	shard *shard
	known bool // answered from the record of an earlier request with the same id
	// Counted as rejected.
	rejected bool
}

func (s *seat) find() *counter { return s.shard.table.find(s.id) }

// nothing is the counter that is read for a tally without one.
var nothing counter

// take locks the shards of all seats in a fixed order, which prevents deadlocks.
func (t *turn) take() {
	if len(t.seats) == 1 {
		mu := &t.seats[0].shard.mu
		mu.Lock()
		defer mu.Unlock()
		t.run()
		return
	}
	shards := make([]*shard, 0, len(t.seats))
	for i := range t.seats {
		shards = append(shards, t.seats[i].shard)
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

func (t *turn) run() {
	t.now = t.store.now()
	at := time.UnixMicro(t.now)
	for i := range t.counts {
		t.counts[i].At = at
	}
	switch t.call.Mode {
	case Charge:
		t.charge()
		return
	case Refund:
		t.refund()
	case Reset:
		t.reset()
	case Reject:
		t.reject()
	case Add:
		t.add()
	case Erase:
		t.erase()
	}
	for i := range t.seats {
		t.read(i)
	}
}

// read computes the count of tally i.
func (t *turn) read(i int) {
	c := t.seats[i].find()
	if c == nil {
		c = &nothing
	}
	s := c.read(t.now, &t.call.Tallies[i])
	t.put(i, s)
	t.counts[i].Reason = s.reason
}

func (t *turn) put(i int, s standing) {
	c := &t.counts[i]
	c.Remaining, c.RetryAfter, c.ResetAfter = s.remaining, micros(s.retryAfter), micros(s.resetAfter)
}

func (t *turn) charge() {
	// Each charge drops up to two ended counters per shard, so that memory stays bounded without Run too.
	for i := range t.seats {
		t.seats[i].shard.clean(2, t.now)
	}
	for i := range t.seats {
		if t.call.Request != "" && t.recall(i) {
			continue
		}
		t.read(i)
	}
	if fits(t.call.Tallies, t.counts) {
		t.admit()
	} else {
		t.refuse()
	}
	if t.call.Request != "" {
		t.remember()
	}
}

// obtain returns the counter with this id in sh, creating it if necessary.
func (t *turn) obtain(sh *shard, id counterID) *counter {
	if c := sh.table.find(id); c != nil {
		return c
	}
	t.makeRoom(sh, id, 1, 0)
	return sh.table.add(id)
}

// makeRoom drops counters and answers of sh until there is room for so many more. It keeps those of this call, even if the shard is then
// too full.
func (t *turn) makeRoom(sh *shard, id counterID, counters, answers int) {
	for sh.full(counters, answers) {
		if !sh.inspect(t.now) && !t.evict(sh, id, answers > 0) {
			return
		}
	}
}

// evict drops a counter of sh that this call does not use, see shard.evict.
func (t *turn) evict(sh *shard, id counterID, answers bool) bool {
	var few [8]counterID // room for the counters of most calls
	own := few[:0]
	for i := range t.seats {
		tally := &t.call.Tallies[i]
		own = append(own, t.seats[i].id)
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
func (t *turn) admit() {
	for i := range t.seats {
		s, tally := &t.seats[i], &t.call.Tallies[i]
		if s.known || t.counts[i].Reason != "" {
			continue
		}
		c := t.obtain(s.shard, s.id)
		var now standing
		now, t.counts[i].Stamp = c.charge(t.now, tally)
		c.used = shareOf(tally.most()-now.remaining, tally.most())
		t.put(i, now)
		s.shard.changed(c, c.endsFor(tally), t.now)
	}
}

// refuse counts a refused request in the tallies that count refusals.
func (t *turn) refuse() {
	for i := range t.seats {
		if t.seats[i].known {
			continue
		}
		tally, reason := &t.call.Tallies[i], t.counts[i].Reason
		if tally.CountRejected && tally.Limit > 0 {
			t.countRejected(i)
			t.seats[i].rejected = true
			t.read(i)
			if t.counts[i].Reason = reason; reason != RateLimited {
				t.counts[i].RetryAfter = 0
			}
		}
		if reason != "" && !tally.Shadow && tally.Strikes != nil {
			t.counts[i].Struck = t.strike(i, 1)
		}
	}
}

func (t *turn) countRejected(i int) {
	sh, tally := t.seats[i].shard, &t.call.Tallies[i]
	c := t.obtain(sh, t.seats[i].id)
	c.countRejected(t.now, tally)
	c.measure(t.now, tally)
	sh.changed(c, c.endsFor(tally), t.now)
}

// strike counts n refusals and reports whether they reach the limit of the strikes.
func (t *turn) strike(i, n int) bool {
	sh, strikes := t.seats[i].shard, t.call.Tallies[i].Strikes
	c := t.obtain(sh, t.store.id(strikes.Key))
	window := strikes.Window.Microseconds()
	struck := c.log.strike(t.now, window, strikes.Limit, n)
	c.used = shareOf(min(len(c.log.times)-int(c.log.head), strikes.Limit), strikes.Limit)
	sh.changed(c, c.log.ends(window), t.now)
	return struck
}

// reject counts requests that were refused without asking the store.
func (t *turn) reject() {
	for i := range t.seats {
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
func (t *turn) add() {
	for i := range t.seats {
		t.seats[i].shard.clean(2, t.now)
		t.read(i)
	}
	for i := range t.seats {
		if t.counts[i].Reason != "" && t.call.Tallies[i].Limit > 0 {
			t.countRejected(i)
		}
	}
	t.admit()
}

// erase removes the newest units of sliding logs.
func (t *turn) erase() {
	for i := range t.seats {
		tally, sh := &t.call.Tallies[i], t.seats[i].shard
		if c := t.seats[i].find(); c != nil && tally.Limit > 0 && tally.algorithm() == string(SlidingLog) {
			c.log.erase(tally.Limit, tally.Cost)
			c.measure(t.now, tally)
			sh.changed(c, c.endsFor(tally), t.now)
		}
	}
}

// refund takes back what the stamps, or the recorded answers of the request, identify.
func (t *turn) refund() {
	for i := range t.seats {
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
		sh := t.seats[i].shard
		if c := t.seats[i].find(); c != nil && stamp != 0 {
			c.refund(t.now, tally, cost, stamp)
			c.measure(t.now, tally)
			sh.changed(c, c.endsFor(tally), t.now)
		}
	}
}

// reset drops the counts.
func (t *turn) reset() {
	for i := range t.seats {
		t.forget(i)
		sh := t.seats[i].shard
		if c := t.seats[i].find(); c != nil {
			sh.drop(c)
		}
		if strikes := t.call.Tallies[i].Strikes; strikes != nil {
			if c := sh.table.find(t.store.id(strikes.Key)); c != nil {
				sh.drop(c)
			}
		}
	}
}
