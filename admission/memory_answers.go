package admission

import (
	"maps"
	"time"
)

const (
	answerFor  = int64(time.Minute / time.Microsecond) // an answer is given again for so long
	maxAnswers = 128                                   // in a generation
)

// answers are what was answered to requests with an id, in two generations: a young one that is full or a minute old takes the place of
// the old one. So nothing is searched for what has ended, a caller's ids take bounded room, and of the last minute at least the last
// 128 answers are known.
type answers struct {
	young, old          map[question]*answer
	since, turned, last int64 // µs: of young's first answer, of its taking the place of old, and of the last answer
}

// A question is a request and one tally of it.
type question struct {
	request string
	tally   counterID
}

// An answer is how a tally was decided.
type answer struct {
	count   Count
	cost    int
	charged bool // and not refunded
	// It was counted as rejected.
	rejected bool
}

func (a *answers) len() int { return len(a.young) + len(a.old) }

// find returns the answer to q of less than a minute ago, or nil.
func (a *answers) find(q question, now int64) *answer {
	found := a.young[q]
	if found == nil {
		found = a.old[q]
	}
	if found == nil || now-found.count.At.UnixMicro() >= answerFor {
		return nil
	}
	return found
}

// add keeps the answer to q.
func (a *answers) add(q question, given *answer, now int64) {
	if len(a.young) >= maxAnswers || now-a.since >= answerFor {
		a.young, a.old, a.since, a.turned = map[question]*answer{}, a.young, now, now
	}
	a.young[q] = given
	a.last = now
}

// trim drops what has been forgotten.
func (a *answers) trim(now int64) {
	if now-a.turned >= answerFor {
		a.old = nil
	}
	if now-a.last >= answerFor {
		a.young = nil
	}
}

// ends is when some of the answers will have been forgotten, or all.
func (a *answers) ends() int64 {
	if len(a.old) > 0 {
		return a.turned + answerFor
	}
	return a.last + answerFor
}

// answer returns what is remembered of the request for tally i, or nil.
func (t *turn) answer(i int) *answer {
	s := &t.seats[i]
	c := s.shard.table.find(t.store.id(t.call.Tallies[i].Records))
	if c == nil || c.answers == nil {
		return nil
	}
	return c.answers.find(question{t.call.Request, s.id}, t.now)
}

// recall answers tally i as its request was answered before, and reports whether it could. What was neither counted nor refused is
// decided anew: that there was room once is no right to it.
func (t *turn) recall(i int) bool {
	a := t.answer(i)
	if a == nil || a.count.Reason == "" && a.count.Stamp == 0 && !a.rejected {
		return false
	}
	t.seats[i].known = true
	t.counts[i] = a.count
	return true
}

// forget forgets all answers for the window of tally i.
func (t *turn) forget(i int) {
	s := &t.seats[i]
	c := s.shard.table.find(t.store.id(t.call.Tallies[i].Records))
	if c == nil || c.answers == nil {
		return
	}
	s.shard.answers -= c.answers.len()
	for _, generation := range []map[question]*answer{c.answers.young, c.answers.old} {
		maps.DeleteFunc(generation, func(q question, _ *answer) bool { return q.tally == s.id })
	}
	s.shard.answers += c.answers.len()
}

// remember keeps the answers that are new.
func (t *turn) remember() {
	for i := range t.seats {
		s, tally := &t.seats[i], &t.call.Tallies[i]
		if s.known {
			continue
		}
		id := t.store.id(tally.Records)
		t.makeRoom(s.shard, id, 0, 1)
		c := t.obtain(s.shard, id)
		if c.answers == nil {
			c.answers = &answers{young: map[question]*answer{}, since: t.now}
		}
		given := &answer{count: t.counts[i], cost: tally.Cost, charged: t.counts[i].Stamp != 0, rejected: s.rejected}
		given.count.Struck = false // who is banned is not banned once more
		s.shard.answers -= c.answers.len()
		c.answers.add(question{t.call.Request, s.id}, given, t.now)
		s.shard.answers += c.answers.len()
		s.shard.changed(c, c.answers.ends(), t.now)
	}
}
