package admission

import (
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/bans"
)

const (
	// denyFor is the longest time that a process refuses without asking the store. It also bounds how long room goes unnoticed that a
	// refund, a reset or a clock step made.
	denyFor        = time.Second
	defaultDenials = 1 << 16
)

// A denyCache remembers for a moment which counters refused which cost, so that a repeated request is refused without a round trip. It is
// bounded and safe for concurrent use.
//
// A denial may become obsolete before it arrives here. Each denial therefore carries the generation of its subject, read before the store
// was asked; clearing a subject starts a new generation. Subjects share generations by hash. That costs a few needless calls and saves an
// index.
type denyCache struct {
	denials      *otter.Cache[denyKey, *denial] // nil: disabled
	seed         maphash.Seed
	generations  [1 << 12]atomic.Uint32
	hits, misses manyCounter

	most    int // of pending, which only Gate.Run drains
	mu      sync.Mutex
	pending []*denial // guarded by mu: denials with refusals to be counted
}

// A manyCounter is a counter sharded over several cache lines to avoid contention between CPUs. The zero value is 0.
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

// A denyKey identifies a counter without computing its store key. Windows are compared by pointer, so a new version of the rules has new
// keys. The hash seed of the subject never leaves the process, so callers cannot construct collisions.
type denyKey struct {
	window  *rules.Counter
	limit   int
	subject uint64
}

// A denial is a counter that refused a request.
type denial struct {
	cost       int
	until      int64 // ns: expiry
	at         int64 // ns: time of verdict
	verdict    Verdict
	storeTime  time.Time
	generation uint32
	rule       *rules.Effect
	target     bans.Target
	tally      store.Tally

	counts   bool         // refusals must be counted in the store
	refusals atomic.Int64 // refusals not yet counted in the store
	units    atomic.Int64 // total cost of these refusals
}

func newDenyCache(size int) *denyCache {
	if size == 0 {
		size = defaultDenials
	}
	c := &denyCache{seed: maphash.MakeSeed(), most: max(size, defaultDenials)}
	if size >= 0 {
		c.denials = otter.Must(&otter.Options[denyKey, *denial]{MaximumSize: size})
	}
	return c
}

func (c *denyCache) remembers() bool { return c.denials != nil }

// hash returns the part of a denyKey that identifies a subject.
func (c *denyCache) hash(identity []string) uint64 {
	var h uint64
	for _, part := range identity {
		h = (h ^ maphash.String(c.seed, part)) * 0x9E3779B97F4A7C15 // 2^64 / golden ratio: the order of parts matters
	}
	return h
}

// generation returns the generation of a subject, identified as in Tally.Subject.
func (c *denyCache) generation(subject string) *atomic.Uint32 {
	return &c.generations[maphash.String(c.seed, subject)%uint64(len(c.generations))]
}

// find returns the denial that applies to a cost at now, or nil. One from the future is from before the clock was set back.
func (c *denyCache) find(key denyKey, cost int, now int64) *denial {
	d, ok := c.denials.GetIfPresent(key)
	if !ok || now < d.at || now >= d.until || cost < d.cost || c.generation(d.tally.Subject).Load() != d.generation {
		return nil
	}
	return d
}

// refuse records that d refused another request.
func (c *denyCache) refuse(d *denial, cost int) {
	if !d.counts {
		return
	}
	d.units.Add(int64(cost))
	if d.refusals.Add(1) == 1 {
		c.mu.Lock()
		if len(c.pending) < c.most {
			c.pending = append(c.pending, d)
		} else {
			d.refusals.Store(0)
			d.units.Store(0)
		}
		c.mu.Unlock()
	}
}

// add stores d, unless a denial with a lower cost is in force: that one covers more requests.
func (c *denyCache) add(key denyKey, d *denial) {
	if old, ok := c.denials.GetIfPresent(key); ok && old.cost < d.cost && d.at < old.until &&
		c.generation(old.tally.Subject).Load() == old.generation {
		return
	}
	c.denials.Set(key, d)
}

// clear drops the denials of a subject, or all if subject is empty.
func (c *denyCache) clear(subject string) {
	if subject != "" {
		c.generation(subject).Add(1)
		return
	}
	for i := range c.generations {
		c.generations[i].Add(1)
	}
}

// drain removes and returns the denials with uncounted refusals, and their tallies for Reject.
func (c *denyCache) drain() (denials []*denial, tallies []store.Tally) {
	c.mu.Lock()
	denials, c.pending = c.pending, nil
	c.mu.Unlock()
	for _, d := range denials {
		t := d.tally
		// fits, and is above every limit
		t.Refusals, t.Cost = int(min(d.refusals.Swap(0), store.MaxLimit+1)), int(min(d.units.Swap(0), store.MaxLimit+1))
		tallies = append(tallies, t)
	}
	return denials, tallies
}
