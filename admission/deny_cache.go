package admission

import (
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
)

const (
	// denyFor is the longest that a process refuses without asking the store. It bounds what it costs to miss
	// that a refund, a reset or another process' clock made room.
	denyFor        = time.Second
	defaultDenials = 1 << 16
)

// A denyCache remembers for a moment which counters refused at which cost, so that who was refused is refused again without
// a round trip. It is bounded and safe for concurrent use.
//
// What a denial stands on may be taken back while it is on its way here. So each belongs to a generation of its subject, taken
// before the store was asked; clearing a subject begins a new one. Subjects share generations by hash: that
// costs a few needless questions and saves an index.
type denyCache struct {
	denials      *otter.Cache[denyKey, *denial]
	seed         maphash.Seed
	generations  [1 << 12]atomic.Uint32
	hits, misses manyCounter

	mu      sync.Mutex
	pending []*denial // guarded by mu: those with refusals to be counted
}

// A manyCounter is counted by all CPUs at once; they would wait for each other at a single number. The zero value is 0.
type manyCounter struct {
	stripes [8]struct {
		n atomic.Uint64
		_ [56]byte
	}
}

func (c *manyCounter) add() { c.stripes[rand.Uint32()%uint32(len(c.stripes))].n.Add(1) }

func (c *manyCounter) sum() (n uint64) {
	for i := range c.stripes {
		n += c.stripes[i].n.Load()
	}
	return n
}

// A denyKey names one counter without the work of its real name. Windows are told apart by their address, so rules of
// another version have other keys. The seed of subject's hash never leaves the process: nobody can make two subjects meet.
type denyKey struct {
	window  *window
	limit   int
	subject uint64
}

// A denial is one counter that refused.
type denial struct {
	cost       int
	until      int64 // ns: forgotten from then on
	at         int64 // ns: when verdict was given
	verdict    Verdict
	storeTime  time.Time
	generation uint32
	rule       *rule
	target     BanTarget
	tally      Tally

	counts   bool         // refusals are counted in the store
	refusals atomic.Int64 // not yet counted there
	units    atomic.Int64 // what they cost
}

func newDenyCache(size int) *denyCache {
	if size == 0 {
		size = defaultDenials
	}
	return &denyCache{
		denials: otter.Must(&otter.Options[denyKey, *denial]{MaximumSize: max(1, size)}),
		seed:    maphash.MakeSeed(),
	}
}

// hash returns the part of a denyKey that stands for the values of a subject.
func (c *denyCache) hash(identity []string) uint64 {
	var h uint64
	for _, part := range identity {
		h = (h ^ maphash.String(c.seed, part)) * 0x9E3779B97F4A7C15 // 2^64 / golden ratio: the order of parts matters
	}
	return h
}

// generation returns that of a subject, as Tally.Subject names it.
func (c *denyCache) generation(subject string) *atomic.Uint32 {
	return &c.generations[maphash.String(c.seed, subject)%uint64(len(c.generations))]
}

// find returns the denial that stands against a cost at now; nil is none.
func (c *denyCache) find(key denyKey, cost int, now int64) *denial {
	d, ok := c.denials.GetIfPresent(key)
	if !ok || now >= d.until || cost < d.cost || c.generation(d.tally.Subject).Load() != d.generation {
		return nil
	}
	return d
}

// refuse notes that d refused a request once more.
func (c *denyCache) refuse(d *denial, cost int) {
	if !d.counts {
		return
	}
	d.units.Add(int64(cost))
	if d.refusals.Add(1) == 1 {
		c.mu.Lock()
		c.pending = append(c.pending, d)
		c.mu.Unlock()
	}
}

// add remembers d, unless one with a lower cost is in force: it says more.
func (c *denyCache) add(key denyKey, d *denial) {
	if old, ok := c.denials.GetIfPresent(key); ok && old.cost < d.cost && d.at < old.until &&
		c.generation(old.tally.Subject).Load() == old.generation {
		return
	}
	c.denials.Set(key, d)
}

// clear forgets a subject, or all if it is empty.
func (c *denyCache) clear(subject string) {
	if subject != "" {
		c.generation(subject).Add(1)
		return
	}
	for i := range c.generations {
		c.generations[i].Add(1)
	}
}

// drain returns the denials whose refusals are to be counted in the store, as tallies for Reject.
func (c *denyCache) drain() (denials []*denial, tallies []Tally) {
	c.mu.Lock()
	denials, c.pending = c.pending, nil
	c.mu.Unlock()
	for _, d := range denials {
		t := d.tally
		t.Refusals, t.Cost = int(min(d.refusals.Swap(0), tooMuch)), int(min(d.units.Swap(0), tooMuch))
		tallies = append(tallies, t)
	}
	return denials, tallies
}
