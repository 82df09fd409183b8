package bans

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/netaddr"
)

const (
	maxPending = 1000             // orders that wait for the store
	putBatch   = 100              // orders per exchange
	liftedFor  = 10 * time.Second // longer than any reply of the store takes
)

// A cache holds the bans in force in this process, so that checking a request needs no round trip. It is safe for concurrent use.
//
// It uses only this process' own clock to end bans: it computes the time left from the store's clock in the store's reply. The
// clocks of two machines are never compared.
type cache struct {
	*tables
	alive atomic.Int64
	// Bit sets of the prefix lengths in use, bit 0 the shortest. find looks once for each.
	lengths4, lengths6 atomic.Uint64

	mu         sync.Mutex
	origin     string // guarded by mu: of the store
	generation int    // guarded by mu: changes of two generations cannot be compared
	cursor     int64  // guarded by mu: changes up to this one are known
	lost       bool   // guarded by mu: the store has forgotten something
	// Recently lifted bans, so that a late reply does not restore them.
	lifted  map[Target]*heldBan // guarded by mu
	pending []Order             // guarded by mu: for the next sync
	swept   int64               // guarded by mu: when the list was last swept
}

func newCache() *cache { return &cache{tables: newTables()} }

// processes returns how many processes were alive at the last reply of the store, at least 1.
func (l *cache) processes() int { return int(max(1, l.alive.Load())) }

// find returns the ban that excludes a caller for the longest time; it may have ended.
func (l *cache) find(user, device string, ip netip.Addr) *heldBan {
	if l.size() == 0 {
		return nil
	}
	longest := longer(l.users.get(user), l.devices.get(device))
	if ip = netaddr.Unembed(ip.Unmap()); !ip.IsValid() || ip.IsLoopback() {
		return longest
	}
	if l.ips.size.Load() > 0 {
		longest = longer(longest, l.ips.get(keyOf(addressPrefix(ip))))
	}
	lengths, length := l.lengths4.Load(), widest4
	if ip.Is6() {
		lengths, length = l.lengths6.Load(), widest6
	}
	for ; lengths != 0; lengths, length = lengths>>1, length+1 {
		if lengths&1 != 0 {
			p, _ := ip.Prefix(length)
			longest = longer(longest, l.networks.get(keyOf(p)))
		}
	}
	return longest
}

// longer returns the ban that ends later; either may be nil.
func longer(a, b *heldBan) *heldBan {
	if a == nil || b != nil && b.ends > a.ends {
		return b
	}
	return a
}

// hold stores b under k. The caller holds mu.
func (l *cache) hold(k targetKey, b *heldBan) {
	if k.kind == Network {
		if k.net.is4 {
			l.lengths4.Or(1 << (k.net.bits - widest4))
		} else {
			l.lengths6.Or(1 << (k.net.bits - widest6))
		}
	}
	l.put(k, b)
}

// apply takes in the store's reply to news with this cursor, at now.
func (l *cache) apply(state *State, since, now int64) {
	l.alive.Store(int64(state.Processes))
	l.mu.Lock()
	defer l.mu.Unlock()
	if state.Origin != l.origin || state.Cursor < since {
		// The known change numbers are void, and changes may have been missed.
		l.lost = l.lost || l.origin != ""
		l.origin, l.cursor = state.Origin, 0
		l.generation++
	}
	if since <= l.cursor {
		l.cursor = max(l.cursor, state.Cursor)
	}
	for i := range state.Bans {
		l.take(&state.Bans[i], state.At, now)
	}
}

func (l *cache) take(b *Ban, at time.Time, now int64) {
	k, ok := b.listed()
	if !ok {
		return
	}
	for _, known := range [...]*heldBan{l.get(k), l.lifted[b.Target]} {
		if known != nil && known.generation == l.generation && known.Change >= b.Change {
			return
		}
	}
	left := b.Until.Sub(at)
	if !b.Lifted() && left > 0 {
		delete(l.lifted, b.Target)
		if l.size() < maxBans {
			l.hold(k, &heldBan{*b, now + int64(left), l.generation})
		}
		return
	}
	l.put(k, nil)
	if l.lifted == nil {
		l.lifted = map[Target]*heldBan{}
	}
	l.lifted[b.Target] = &heldBan{*b, now, l.generation}
}

// sweep drops bans that have ended. It looks at every ban, so it does nothing if the last sweep was recent.
func (l *cache) sweep(now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now < l.swept+int64(syncEvery) {
		return
	}
	l.swept = now
	var ended []targetKey
	var lengths4, lengths6 uint64
	l.each(func(b *heldBan) {
		if b.ends > now && b.Kind != Network {
			return
		}
		switch k, _ := b.listed(); {
		case b.ends <= now:
			ended = append(ended, k)
		case k.net.is4:
			lengths4 |= 1 << (k.net.bits - widest4)
		default:
			lengths6 |= 1 << (k.net.bits - widest6)
		}
	})
	for _, k := range ended {
		l.put(k, nil)
	}
	l.lengths4.Store(lengths4)
	l.lengths6.Store(lengths6)
	for t, b := range l.lifted {
		if b.ends+int64(liftedFor) <= now {
			delete(l.lifted, t)
		}
	}
}

// running returns the bans in force at now.
func (l *cache) running(now int64) []*heldBan {
	bans := make([]*heldBan, 0, l.size())
	l.each(func(b *heldBan) {
		if b.ends > now {
			bans = append(bans, b)
		}
	})
	return bans
}

// later keeps an order for the next sync. Orders beyond maxPending are dropped: further refusals order the ban again.
func (l *cache) later(order Order) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) < maxPending {
		l.pending = append(l.pending, order)
	}
}

// takePending removes and returns some of the pending orders.
func (l *cache) takePending() []Order {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.pending), putBatch)
	orders := l.pending[:n:n]
	l.pending = l.pending[n:]
	return orders
}

func (l *cache) known() (cursor int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cursor
}

// lose makes the next call of forgotten return true.
func (l *cache) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = true
}

// forgotten reports, once, whether the store has lost bans that this process holds.
func (l *cache) forgotten() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := l.lost
	l.lost = false
	return lost
}
