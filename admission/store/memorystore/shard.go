package memorystore

import (
	"slices"
	"sync"
	"time"
)

const (
	maxShards = 256 // enough that callers hardly ever contend for one
	minShard  = 64  // counters: a small store has few shards, so that they fill evenly
)

// grace is how long a counter is kept after its end if its memory is not needed: an injected clock may step back.
const grace = int64(time.Second / time.Microsecond)

// A counterID is a hash of a counter's key, with a secret seed. In a full store two keys collide with a probability of 2 in a billion;
// they then share one limit. Not storing the keys saves a third of the memory of a counter, and one cache miss per lookup.
type counterID uint64

// A shard holds a part of the counters. The fields that every decision reads are in its first 64 bytes, one cache line.
type shard struct {
	mu      sync.Mutex
	table   table // guarded by mu
	queue   []due // guarded by mu: one entry per counter, a heap ordered by due time
	answers int   // guarded by mu: recorded answers in all counters
	number  int   // index in the store
	room    int   // maximum number of counters, and of answers

	reclaimed uint64   // ended counters that were dropped; guarded by mu
	evicted   uint64   // counters that still counted and were dropped; guarded by mu
	_         [24]byte // prevents false sharing between shards
}

// A due is the time at which to check whether a counter has ended. It may be earlier than the counter's end, never later: a charge moves
// the end but leaves the queue unchanged, because updating it would be most of the cost of a charge.
type due struct {
	at int64 // µs
	id counterID
}

// changed must be called after a count in c changed and c ends at another time. It may drop c.
func (sh *shard) changed(c *counter, ends, now int64) {
	before := c.ends
	c.ends = ends
	switch {
	case before != 0 && ends >= before: // the common case: the queue entry is early enough
	case c.place == 0:
		sh.queue = append(sh.queue, due{})
		sh.up(len(sh.queue)-1, due{ends, c.id})
	case ends <= now-grace:
		sh.drop(c)
	case ends < sh.queue[c.place-1].at:
		sh.up(int(c.place)-1, due{ends, c.id})
	}
}

// full reports whether the shard lacks room for so many more counters and answers.
func (sh *shard) full(counters, answers int) bool {
	return counters > 0 && sh.table.count+counters > sh.room || answers > 0 && sh.answers+answers > sh.room
}

// sampled is how many counters are compared for an eviction. To evict a counter at its limit, an attacker must bring so many counters of
// a shard to their limit that all sampled ones are among them.
const sampled = 16

// evict drops the counter with the smallest used share of its limit, among those near the slot of id, which callers cannot choose. It
// never drops one of kept, and if answers is set only one that holds answers. It reports whether it dropped one.
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

// clean inspects up to n counters that are due, and reports whether there may be more.
func (sh *shard) clean(n int, now int64) bool {
	for range n {
		if !sh.inspect(now - grace) {
			return false
		}
	}
	return true
}

// inspect drops the first counter in the queue if it has ended, or requeues it. It reports whether one was due.
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

// drop removes c.
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

// up sifts d up in the heap from place i.
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

// down sifts d down in the heap from place i.
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
