package orders

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	glanceTTL    = 200 * time.Millisecond // how long a refusal may be answered from memory
	glanceRenew  = 100 * time.Millisecond // age at which a refusal from memory starts a refresh of the glance
	edge         = 250 * time.Millisecond // this close to the sale's hours only Redis' clock decides
	holdersChunk = 5_000
)

// shelf is one item of the catalog, and this process's cache of its state in Redis.
type shelf struct {
	sale *listing
	item *Item
	keys []string // of the sale's epoch
	lead string   // key of the item's leader
	*memory
}

func (s *Service) newShelf(l *listing, it *Item) *shelf {
	return &shelf{sale: l, item: it, keys: s.itemKeys(l.ID, it.ID, l.Epoch), lead: s.leadKey(l.ID, it.ID)}
}

// led returns the keys of scripts that check the item's leader.
func (sh *shelf) led() []string { return append(slices.Clip(sh.keys), sh.lead) }

// memory is kept when the catalog is reloaded.
type memory struct {
	glance     atomic.Pointer[glance]
	looking    atomic.Bool
	generation atomic.Int64 // the fence's generation in which Redis was verified to have the item

	mu      sync.RWMutex
	holders map[string]struct{} // the first read entries of Redis' list, guarded by mu
	read    int                 // guarded by mu
}

// glance is a snapshot of an item's state in Redis.
type glance struct {
	at         time.Time
	now        time.Time // Redis' clock
	switched   Switch    // as set in Redis
	free       int
	recovering bool
	complete   bool // all holders had been read
}

func newMemory() *memory { return &memory{holders: make(map[string]struct{})} }

// holderMark is the part of a buyer's hash that the list of holders keeps. If two buyers share it, requests of the second are
// decided in Redis. A row written by another program may be shorter, and must not prevent the sale from being rebuilt.
func holderMark(buyerHash string) string { return buyerHash[:min(11, len(buyerHash))] }

func (m *memory) holds(buyerHash string) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	_, ok := m.holders[holderMark(buyerHash)]
	return ok
}

// forget drops the glance, because something changed after it was taken.
func (m *memory) forget() { m.glance.Store(nil) }

// refusal returns the reason why new buyers get no units of the item, as far as the glance shows. An empty reason means that
// Redis has to decide. The reason must have applied when the glance was taken, too: only then were its holders complete.
func refusal(sale *Sale, g *glance, now time.Time) (Reason, time.Duration) {
	if g == nil || time.Since(g.at) > glanceTTL || g.recovering || !g.complete {
		return "", 0
	}
	if now.Sub(sale.StartsAt).Abs() < edge || now.Sub(sale.EndsAt).Abs() < edge {
		return "", 0
	}
	then := *sale
	then.Switch = g.switched
	state := then.StateAt(g.now)
	if state != sale.StateAt(now) {
		return "", 0
	}
	switch state {
	case StateScheduled:
		if sale.Switch == SwitchDraft {
			return ReasonNotStarted, 0
		}
		return ReasonNotStarted, sale.StartsAt.Sub(now)
	case StatePaused:
		return ReasonPaused, 0
	case StateEnded, StateClosed:
		return ReasonEnded, 0
	}
	if g.free <= 0 {
		return ReasonSoldOut, 0
	}
	return "", 0
}

// look reads a new glance, and the holders that were not read yet.
func (s *Service) look(ctx context.Context, sh *shelf) (*glance, error) {
	for {
		sh.mu.RLock()
		from := sh.read
		sh.mu.RUnlock()
		at := time.Now()
		reply, err := lookScript.Run(ctx, s.rdb, sh.keys, from, holdersChunk).Slice()
		if err != nil {
			return nil, unavailable(err)
		}
		if len(reply) == 1 {
			s.suspectForgotten(sh)
			return nil, ErrRecovering
		}
		d := decoder{reply: reply}
		now := d.int64()
		s.clock.read(now)
		g := &glance{at: at, now: time.UnixMilli(now), free: int(d.int64()), recovering: d.int64() == 1, switched: Switch(d.string())}
		count, further := int(d.int64()), d.strings()
		if d.err != nil {
			return nil, d.err
		}
		sh.mu.Lock()
		if sh.read == from {
			for _, mark := range further {
				sh.holders[mark] = struct{}{}
			}
			sh.read += len(further)
		}
		g.complete = sh.read >= count
		sh.mu.Unlock()
		if g.complete {
			sh.glance.Store(g)
			return g, nil
		}
	}
}

// keepLooking refreshes the glance in the background when g is nil or older than glanceRenew, one refresh at a time.
func (s *Service) keepLooking(sh *shelf, g *glance) {
	if g != nil && time.Since(g.at) < glanceRenew || !sh.looking.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer sh.looking.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), s.opts.Timeout)
		defer cancel()
		_, _ = s.look(ctx, sh) // without a glance the next caller asks Redis, and gets the error
	}()
}
