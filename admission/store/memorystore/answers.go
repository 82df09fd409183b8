package memorystore

import (
	"maps"
	"time"

	"github.com/tidegate/tidegate/admission/store"
)

const (
	answerFor  = int64(time.Minute / time.Microsecond) // how long an answer is repeated
	maxAnswers = 128                                   // per generation
	step       = int64(time.Second / time.Microsecond) // by which the clock may be set back without an effect
)

// answers holds the recorded answers to requests with an id, in two generations. When the young generation is full or a minute old, it
// replaces the old one. So expired answers need no search, the ids of one caller take bounded memory, and at least the last 128 answers
// of the last minute are kept.
type answers struct {
	young, old          map[question]*answer
	since, turned, last int64 // µs: first answer in young, last swap of generations, last answer
}

// A question identifies a request and one of its tallies.
type question struct {
	request string
	tally   counterID
}

// An answer is the recorded decision on a tally.
type answer struct {
	count   store.Count
	cost    int
	charged bool // and not refunded
	// It was counted as rejected.
	rejected bool
}

func (a *answers) len() int { return len(a.young) + len(a.old) }

// find returns the answer to q if it is less than a minute old, or nil.
func (a *answers) find(q question, now int64) *answer {
	found := a.young[q]
	if found == nil {
		found = a.old[q]
	}
	if found == nil {
		return nil
	}
	at := found.count.At.UnixMicro()
	if at > now+step { // the clock was set back
		found.count.At, at = time.UnixMicro(now), now
	}
	if now-at >= answerFor {
		return nil
	}
	return found
}

// add records the answer to q.
func (a *answers) add(q question, given *answer, now int64) {
	a.since = min(a.since, now)
	if len(a.young) >= maxAnswers || now-a.since >= answerFor {
		a.young, a.old, a.since, a.turned = map[question]*answer{}, a.young, now, now
	}
	a.young[q] = given
	a.last = now
}

// trim drops expired answers.
func (a *answers) trim(now int64) {
	if now-a.turned >= answerFor {
		a.old = nil
	}
	if now-a.last >= answerFor {
		a.young = nil
	}
}

// ends returns when some or all of the answers expire.
func (a *answers) ends() int64 {
	if len(a.old) > 0 {
		return a.turned + answerFor
	}
	return a.last + answerFor
}

// answer returns the recorded answer of the request for tally i, or nil.
func (t *lockedCall) answer(i int) *answer {
	s := &t.entries[i]
	c := s.shard.table.find(t.store.id(t.call.Tallies[i].Records))
	if c == nil || c.answers == nil {
		return nil
	}
	return c.answers.find(question{t.call.Request, s.id}, t.now)
}

// recall repeats the recorded answer for tally i, and reports whether there was one. If the tally was neither counted nor refused, it is
// decided again: a past check that found room does not guarantee room now.
func (t *lockedCall) recall(i int) bool {
	a := t.answer(i)
	if a == nil || a.count.Reason == "" && a.count.Stamp == 0 && !a.rejected {
		return false
	}
	t.entries[i].known = true
	t.counts[i] = a.count
	return true
}

// forget drops all answers for the window of tally i.
func (t *lockedCall) forget(i int) {
	s := &t.entries[i]
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

// remember records the new answers.
func (t *lockedCall) remember() {
	for i := range t.entries {
		s, tally := &t.entries[i], &t.call.Tallies[i]
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
		given.count.Struck = false // a resend must not ban again
		s.shard.answers -= c.answers.len()
		c.answers.add(question{t.call.Request, s.id}, given, t.now)
		s.shard.answers += c.answers.len()
		s.shard.changed(c, c.answers.ends(), t.now)
	}
}
