package admission

import (
	"slices"
	"sync"
	"time"
)

const (
	maxShards = 256 // so many that callers hardly ever wait for each other
	minShard  = 64  // counters: of a small store, few shards, or else one is full long before the others
)

// grace is how long a counter is kept after its end where nothing else needs the room: a clock that was handed in may step back.
const grace = int64(time.Second / time.Microsecond)

// A counterID is a hash of a counter's key, by a seed that nobody else knows. Two keys of a full store have the same one with a
// probability of 2 in a billion; they then share what they may take. Without the keys a counter takes a third less memory,
// and a look at it one cache miss less.
type counterID uint64

// A shard holds a part of the counters. What every decision reads of it is in its first 64 bytes, one cache line.
type shard struct {
	mu      sync.Mutex
	table   table // guarded by mu
	queue   []due // guarded by mu: of every counter, a heap; the first is due first
	answers int   // guarded by mu: that all counters hold
	number  int   // in the store
	room    int   // counters at most, and answers

	reclaimed uint64   // counters that had ended and were dropped; guarded by mu
	evicted   uint64   // counters that still counted and were dropped; guarded by mu
	_         [24]byte // keeps two shards off one pair of cache lines
}

// A due is when to look whether a counter has ended. That is no later than its end, but may be sooner: a charge moves
// the end and not the place in the queue, which would be most of its cost.
type due struct {
	at int64 // µs
	id counterID
}

// changed is called when something has been counted in c, or taken back, and it ends at another time. c may then be gone.
func (sh *shard) changed(c *counter, ends, now int64) {
	before := c.ends
	c.ends = ends
	switch {
	case before != 0 && ends >= before: // most often: its place in the queue is early enough
	case c.place == 0:
		sh.queue = append(sh.queue, due{})
		sh.up(len(sh.queue)-1, due{ends, c.id})
	case ends <= now-grace:
		sh.drop(c)
	case ends < sh.queue[c.place-1].at:
		sh.up(int(c.place)-1, due{ends, c.id})
	}
}

// full reports whether there is no room for so many more.
func (sh *shard) full(counters, answers int) bool {
	return counters > 0 && sh.table.count+counters > sh.room || answers > 0 && sh.answers+answers > sh.room
}

// sampled is how many counters are compared before one is evicted. An attacker has to bring so large a part of a shard to its
// limit that all of so many are there.
const sampled = 16

// evict drops the counter that used the smallest share of its limit, among some that lie where id would be, which nobody outside
// can choose. It drops none of kept, and with answers only one that has some. It reports whether there was one.
func (sh *shard) evict(id counterID, kept []counterID, answers bool) bool {
	if sh.table.count == 0 {
		return false
	}
	var least *counter
	i, seen := sh.table.home(id), 0
	for range sh.table.slots {
		c := &sh.table.slots[i]
		i = sh.table.after(i)
		if c.id == 0 || answers && c.answers == nil || slices.Contains(kept, c.id) {
			continue
		}
		if least == nil || c.used < least.used || c.used == least.used && c.ends < least.ends {
			least = c
		}
		if seen++; seen == sampled {
			break
		}
	}
	if least == nil {
		return false
	}
	sh.evicted++
	sh.drop(least)
	return true
}

// clean looks at up to n counters that are due, and reports whether there may be more.
func (sh *shard) clean(n int, now int64) bool {
	for range n {
		if !sh.inspect(now - grace) {
			return false
		}
	}
	return true
}

// inspect drops the counter that is due first if it has ended, or finds its new place. It reports whether one was due.
func (sh *shard) inspect(now int64) bool {
	if len(sh.queue) == 0 || sh.queue[0].at > now {
		return false
	}
	c := sh.table.find(sh.queue[0].id)
	if c.answers != nil && c.ends <= now {
		sh.answers -= c.answers.len()
		c.answers.trim(now)
		sh.answers += c.answers.len()
		c.ends = c.answers.ends()
	}
	if c.ends <= now {
		sh.reclaimed++
		sh.drop(c)
	} else {
		sh.down(0, due{c.ends, c.id})
	}
	return true
}

// drop forgets c.
func (sh *shard) drop(c *counter) {
	if c.answers != nil {
		sh.answers -= c.answers.len()
	}
	at, last := int(c.place)-1, len(sh.queue)-1
	sh.table.remove(c.id)
	moved := sh.queue[last]
	sh.queue[last] = due{}
	sh.queue = sh.queue[:last]
	switch {
	case at == last:
	case at > 0 && sh.queue[(at-1)/2].at > moved.at:
		sh.up(at, moved)
	default:
		sh.down(at, moved)
	}
}

// up puts d where it belongs between place i and the first.
func (sh *shard) up(i int, d due) {
	for i > 0 {
		parent := (i - 1) / 2
		if sh.queue[parent].at <= d.at {
			break
		}
		sh.put(i, sh.queue[parent])
		i = parent
	}
	sh.put(i, d)
}

// down puts d where it belongs between place i and the last.
func (sh *shard) down(i int, d due) {
	for {
		child := 2*i + 1
		if child >= len(sh.queue) {
			break
		}
		if child+1 < len(sh.queue) && sh.queue[child+1].at < sh.queue[child].at {
			child++
		}
		if sh.queue[child].at >= d.at {
			break
		}
		sh.put(i, sh.queue[child])
		i = child
	}
	sh.put(i, d)
}

func (sh *shard) put(i int, d due) {
	sh.queue[i] = d
	sh.table.find(d.id).place = int32(i + 1)
}
