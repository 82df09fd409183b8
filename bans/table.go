package bans

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
)

// A targetKey is a target in the form used for lookup by requests. Addresses and networks are not formatted as text.
type targetKey struct {
	kind Kind
	name string // of a user or a device
	net  netKey // of an address or a network
}

// listed returns the key of a canonical target; ok is false if t is not one.
func (t Target) listed() (key targetKey, ok bool) {
	switch t.Kind {
	case User, Device:
		return targetKey{kind: t.Kind, name: t.Value}, true
	case IP, Network:
		p, err := t.prefix()
		return targetKey{kind: t.Kind, net: keyOf(p)}, err == nil
	}
	return targetKey{}, false
}

// A netKey is a masked prefix as integers, which hash faster. IPv4 addresses are stored as IPv4-mapped IPv6 addresses.
type netKey struct {
	high, low uint64
	bits      uint8 // of the address in its own family
	is4       bool
}

func keyOf(p netip.Prefix) netKey {
	b := p.Addr().As16()
	return netKey{binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(b[8:]), uint8(p.Bits()), p.Addr().Is4()}
}

func hashNet(k netKey) uint64 {
	h := (k.high*0x9E3779B97F4A7C15 ^ k.low) * 0x9E3779B97F4A7C15 // 2^64 / golden ratio
	return h >> 32
}

var seed = maphash.MakeSeed()

func hashName(name string) uint64 { return maphash.String(seed, name) }

// A heldBan is a ban as a process holds it. It is immutable.
type heldBan struct {
	Ban
	ends       int64 // ns of the list's clock
	generation int   // see cache
}

// A table holds bans of one kind, in shards that reduce lock contention. It is safe for concurrent use.
type table[K comparable] struct {
	hash   func(K) uint64
	size   atomic.Int64
	shards [64]struct {
		mu sync.RWMutex
		m  map[K]*heldBan // guarded by mu
		_  [32]byte       // keeps the locks of two shards off one cache line
	}
}

func (t *table[K]) get(k K) *heldBan {
	if t.size.Load() == 0 {
		return nil
	}
	s := &t.shards[t.hash(k)%uint64(len(t.shards))]
	s.mu.RLock()
	b := s.m[k]
	s.mu.RUnlock()
	return b
}

// put stores b under k; nil removes the entry.
func (t *table[K]) put(k K, b *heldBan) {
	s := &t.shards[t.hash(k)%uint64(len(t.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.m)
	switch {
	case b == nil:
		delete(s.m, k)
	case s.m == nil:
		s.m = map[K]*heldBan{k: b}
	default:
		s.m[k] = b
	}
	t.size.Add(int64(len(s.m) - before))
}

// each calls do with every ban; do must not call t.
func (t *table[K]) each(do func(*heldBan)) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.RLock()
		for _, b := range s.m {
			do(b)
		}
		s.mu.RUnlock()
	}
}

// tables has one table for each kind of ban. Make it with newTables.
type tables struct {
	users, devices table[string]
	ips, networks  table[netKey]
}

func newTables() *tables {
	t := &tables{}
	t.users.hash, t.devices.hash, t.ips.hash, t.networks.hash = hashName, hashName, hashNet, hashNet
	return t
}

func (t *tables) size() int {
	return int(t.users.size.Load() + t.devices.size.Load() + t.ips.size.Load() + t.networks.size.Load())
}

func (t *tables) get(k targetKey) *heldBan {
	switch k.kind {
	case User:
		return t.users.get(k.name)
	case Device:
		return t.devices.get(k.name)
	case IP:
		return t.ips.get(k.net)
	default:
		return t.networks.get(k.net)
	}
}

func (t *tables) put(k targetKey, b *heldBan) {
	switch k.kind {
	case User:
		t.users.put(k.name, b)
	case Device:
		t.devices.put(k.name, b)
	case IP:
		t.ips.put(k.net, b)
	default:
		t.networks.put(k.net, b)
	}
}

func (t *tables) each(do func(*heldBan)) {
	t.users.each(do)
	t.devices.each(do)
	t.ips.each(do)
	t.networks.each(do)
}
