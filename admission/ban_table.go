package admission

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
)

// A banKey is a target in the form in which requests look for it: addresses and networks need not be written out.
type banKey struct {
	kind BanKind
	name string       // of a user or a device
	net  netip.Prefix // of an address or a network
}

// listed returns the key of a canonical target; ok is false for one that is none.
func (t BanTarget) listed() (key banKey, ok bool) {
	switch t.Kind {
	case BanUser, BanDevice:
		return banKey{kind: t.Kind, name: t.Value}, true
	case BanIP, BanNetwork:
		p, err := t.prefix()
		return banKey{kind: t.Kind, net: p}, err == nil
	}
	return banKey{}, false
}

// A heldBan is a ban as a process holds it. It never changes.
type heldBan struct {
	Ban
	ends       int64 // ns of the gate's clock
	generation int   // see banList
}

// A banTable holds bans by key, in shards so that those who look do not wait for each other. The zero value is empty. It is
// safe for concurrent use.
type banTable struct {
	size   atomic.Int64
	shards [64]struct {
		mu sync.RWMutex
		m  map[banKey]*heldBan // guarded by mu
		_  [32]byte            // keeps the locks of two shards off one cache line
	}
}

var banSeed = maphash.MakeSeed()

func (t *banTable) shardOf(k banKey) int {
	return int(maphash.Comparable(banSeed, k) % uint64(len(t.shards)))
}

func (t *banTable) get(k banKey) *heldBan {
	s := &t.shards[t.shardOf(k)]
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.m[k]
}

func (t *banTable) put(k banKey, b *heldBan) {
	s := &t.shards[t.shardOf(k)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = map[banKey]*heldBan{}
	}
	if s.m[k] == nil {
		t.size.Add(1)
	}
	s.m[k] = b
}

func (t *banTable) remove(k banKey) {
	s := &t.shards[t.shardOf(k)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m[k] != nil {
		t.size.Add(-1)
		delete(s.m, k)
	}
}

// each calls do with every ban; do must not call t.
func (t *banTable) each(do func(banKey, *heldBan)) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.RLock()
		for k, b := range s.m {
			do(k, b)
		}
		s.mu.RUnlock()
	}
}
