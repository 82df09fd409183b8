package admission

import (
	"slices"
	"time"
)

// A turn is one call while it holds the locks of its shards.
type turn struct {
	store  *MemoryStore
	call   *Call
	now    int64 // µs
	seats  []seat
	counts []Count
}

// A seat is the place of a tally.
type seat struct {
	id    counterID
	shard *shard
	known bool // answered from an earlier request with the same id
	// Counted as rejected.
	rejected bool
}

func (s *seat) find() *counter { return s.shard.table.find(s.id) }

// nothing is what a tally without a counter is read from.
var nothing counter

// take locks the shards of all seats, in their order so that two turns never wait for each other.
func (t *turn) take() error {
	if len(t.seats) == 1 {
		mu := &t.seats[0].shard.mu
		mu.Lock()
		defer mu.Unlock()
		return t.run()
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
	return t.run()
}

func (t *turn) run() error {
	t.now = t.store.now()
	at := time.UnixMicro(t.now)
	for i := range t.counts {
		t.counts[i].At = at
	}
	switch t.call.Mode {
	case Charge:
		return t.charge()
	case Refund:
		t.refund()
	case Reset:
		t.reset()
	case Reject:
		t.reject()
	case Add:
		if err := t.add(); err != nil {
			return err
		}
	case Erase:
		t.erase()
	}
	for i := range t.seats {
		t.read(i)
	}
	return nil
}

// read reads how tally i stands.
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

func (t *turn) charge() error {
	// Two leave for each that comes: so the store without Run too holds little more than what counts.
	for i := range t.seats {
		t.seats[i].shard.clean(2, t.now)
	}
	for i := range t.seats {
		if t.call.Request != "" && t.recall(i) {
			continue
		}
		t.read(i)
	}
	switch {
	case !fits(t.call.Tallies, t.counts):
		t.refuse()
	case !t.makeRoom():
		return ErrFull
	default:
		t.admit()
	}
	if t.call.Request != "" {
		t.remember()
	}
	return nil
}

// makeRoom sees to it that everything which is to be kept of an admitted request has room, and reports whether it has.
func (t *turn) makeRoom() bool {
	full, wanted := false, false
	for i := range t.seats {
		counters, answers := t.missing(i)
		wanted = wanted || counters > 0 || answers > 0
	}
	if !wanted {
		return true
	}
	for i := range t.seats {
		sh, counters, answers := t.seats[i].shard, 0, 0
		for j := range t.seats[:i+1] {
			if t.seats[j].shard == sh {
				c, a := t.missing(j)
				counters, answers = counters+c, answers+a
			}
		}
		if !sh.makeRoom(counters, answers, t.now) {
			sh.refused++
			full = true
		}
	}
	return !full
}

// missing returns how many counters and answers are to be made for tally i.
func (t *turn) missing(i int) (counters, answers int) {
	s := &t.seats[i]
	if s.known {
		return 0, 0
	}
	if t.counts[i].Reason == "" || t.call.Mode == Add && t.call.Tallies[i].Limit > 0 {
		if c := s.find(); c == nil || c.ends <= t.now { // which may be dropped for another
			counters++
		}
	}
	if t.call.Request != "" {
		answers++
		if s.shard.table.find(t.store.id(t.call.Tallies[i].Records)) == nil {
			counters++
		}
	}
	return counters, answers
}

// admit counts the request where there is room.
func (t *turn) admit() {
	for i := range t.seats {
		s, tally := &t.seats[i], &t.call.Tallies[i]
		if s.known || t.counts[i].Reason != "" {
			continue
		}
		c := s.find()
		if c == nil {
			c = s.shard.table.add(s.id)
		}
		var now standing
		now, t.counts[i].Stamp = c.charge(t.now, tally)
		t.put(i, now)
		s.shard.changed(c, c.endsFor(tally), t.now)
	}
}

// refuse counts a refused request where refusals count. Where they have no room they are left out.
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
	if c := sh.obtain(t.seats[i].id, t.now); c != nil {
		c.countRejected(t.now, tally)
		sh.changed(c, c.endsFor(tally), t.now)
	}
}

// strike counts n refusals and reports whether they are enough.
func (t *turn) strike(i, n int) bool {
	sh, strikes := t.seats[i].shard, t.call.Tallies[i].Strikes
	c := sh.obtain(t.store.id(strikes.Key), t.now)
	if c == nil {
		return false
	}
	window := strikes.Window.Microseconds()
	struck := c.log.strike(t.now, window, strikes.Limit, n)
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

// add counts what has happened already.
func (t *turn) add() error {
	for i := range t.seats {
		t.seats[i].shard.clean(2, t.now)
		t.read(i)
	}
	if !t.makeRoom() {
		return ErrFull
	}
	for i := range t.seats {
		if t.counts[i].Reason != "" && t.call.Tallies[i].Limit > 0 {
			t.countRejected(i)
		}
	}
	t.admit()
	return nil
}

// erase takes the newest units of logs away.
func (t *turn) erase() {
	for i := range t.seats {
		tally, sh := &t.call.Tallies[i], t.seats[i].shard
		if c := t.seats[i].find(); c != nil && tally.Limit > 0 && tally.algorithm() == string(SlidingLog) {
			c.log.erase(tally.Limit, tally.Cost)
			sh.changed(c, c.endsFor(tally), t.now)
		}
	}
}

// refund takes back what the stamps, or the answers to the request, say.
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
			sh.changed(c, c.endsFor(tally), t.now)
		}
	}
}

// reset forgets what was counted.
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
