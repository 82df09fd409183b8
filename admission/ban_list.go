package admission

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxPending = 1000             // orders that wait for the store
	putBatch   = 100              // orders that it gets at once
	liftedFor  = 10 * time.Second // longer than any answer of the store is on its way
)

// A banList is the bans in force as this process knows them, so that a request is held against them without a round trip.
// It is safe for concurrent use.
//
// When a ban ends is a matter of this process' own clock: what is left of it is reckoned from the store's clock as the store told of it,
// so that the clocks of two machines are never compared.
type banList struct {
	*banTables
	alive atomic.Int64
	// The lengths of the prefixes of networks, for each of which there is a look: bit 0 is the widest.
	lengths4, lengths6 atomic.Uint64

	news chan struct{} // of one place: something is to be told or learned

	mu         sync.Mutex
	origin     string // guarded by mu: of the store
	generation int    // guarded by mu: changes of two generations cannot be compared
	cursor     int64  // guarded by mu: changes up to this one are known
	lost       bool   // guarded by mu: the store has forgotten something
	// What was lifted a moment ago, so that an answer which is late does not bring it back.
	lifted  map[BanTarget]*heldBan // guarded by mu
	pending []BanOrder             // guarded by mu: to be put with the next pulse
	swept   int64                  // guarded by mu: when the list was last swept
}

func newBanList() *banList { return &banList{banTables: newBanTables(), news: make(chan struct{}, 1)} }

// processes is how many were alive when the store was last heard of, at least 1.
func (l *banList) processes() int { return int(max(1, l.alive.Load())) }

// find returns the ban that keeps a caller out for longest; it may have ended.
func (l *banList) find(user, device string, ip netip.Addr) *heldBan {
	if l.size() == 0 {
		return nil
	}
	longest := longer(l.users.get(user), l.devices.get(device))
	if ip = embedded4(ip.Unmap()); !ip.IsValid() || ip.IsLoopback() {
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

// longer returns the ban that ends later; nil is none.
func longer(a, b *heldBan) *heldBan {
	if a == nil || b != nil && b.ends > a.ends {
		return b
	}
	return a
}

// hold is called under mu.
func (l *banList) hold(k banKey, b *heldBan) {
	if k.kind == BanNetwork {
		if k.net.is4 {
			l.lengths4.Or(1 << (k.net.bits - widest4))
		} else {
			l.lengths6.Or(1 << (k.net.bits - widest6))
		}
	}
	l.put(k, b)
}

// apply takes in what the store answered to news with this cursor, at now.
func (l *banList) apply(state *BanState, since, now int64) {
	l.alive.Store(int64(state.Processes))
	l.mu.Lock()
	defer l.mu.Unlock()
	if state.Origin != l.origin || state.Cursor < since {
		// The numbers of the changes that are known mean nothing any more, and others may have been missed.
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

func (l *banList) take(b *Ban, at time.Time, now int64) {
	k, ok := b.listed()
	if !ok {
		return
	}
	for _, known := range [...]*heldBan{l.get(k), l.lifted[b.BanTarget]} {
		if known != nil && known.generation == l.generation && known.Change >= b.Change {
			return
		}
	}
	left := b.Until.Sub(at)
	if !b.lifted() && left > 0 {
		delete(l.lifted, b.BanTarget)
		if l.size() < MaxBans {
			l.hold(k, &heldBan{*b, now + int64(left), l.generation})
		}
		return
	}
	l.put(k, nil)
	if l.lifted == nil {
		l.lifted = map[BanTarget]*heldBan{}
	}
	l.lifted[b.BanTarget] = &heldBan{*b, now, l.generation}
}

// sweep forgets what has ended by now. It looks at every ban, so it does nothing if it has just done so.
func (l *banList) sweep(now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now < l.swept+int64(pulseEvery) {
		return
	}
	l.swept = now
	var ended []banKey
	var lengths4, lengths6 uint64
	l.each(func(b *heldBan) {
		if b.ends > now && b.Kind != BanNetwork {
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
func (l *banList) running(now int64) []*heldBan {
	bans := make([]*heldBan, 0, l.size())
	l.each(func(b *heldBan) {
		if b.ends > now {
			bans = append(bans, b)
		}
	})
	return bans
}

// later keeps an order for the next pulse. More than maxPending are dropped: whoever earned them goes on to earn them.
func (l *banList) later(order BanOrder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) < maxPending {
		l.pending = append(l.pending, order)
	}
}

// owed returns some of the orders that were kept.
func (l *banList) owed() []BanOrder {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.pending), putBatch)
	orders := l.pending[:n:n]
	l.pending = l.pending[n:]
	return orders
}

func (l *banList) known() (cursor int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cursor
}

// lose makes forgotten report again.
func (l *banList) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = true
}

// forgotten reports, once, whether the store has forgotten what is known here.
func (l *banList) forgotten() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := l.lost
	l.lost = false
	return lost
}
