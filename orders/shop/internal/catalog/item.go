package catalog

import (
	"context"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/batch"
	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/lua"
)

const (
	snapshotTTL     = 200 * time.Millisecond // how long a refusal may be answered from memory
	snapshotRefresh = 100 * time.Millisecond // age at which a refusal from memory starts a refresh of the snapshot
	nearHours       = 250 * time.Millisecond // this close to the sale's hours only Redis' clock decides
	holdersChunk    = 5_000
)

// Item is one item of the catalog, and this process's cache of its state in Redis.
type Item struct {
	Sale *Listing
	Item *orders.Item
	Keys []string // of the sale's epoch
	Lead string   // key of the item's leader
	*itemState
}

// NewItem returns an item without state.
func NewItem(c *core.Core, l *Listing, it *orders.Item) *Item {
	return &Item{Sale: l, Item: it, Keys: c.ItemKeys(l.ID, it.ID, l.Epoch), Lead: c.LeadKey(l.ID, it.ID)}
}

// KeysWithLead returns the keys of scripts that check the item's leader.
func (ci *Item) KeysWithLead() []string { return append(slices.Clip(ci.Keys), ci.Lead) }

// itemState is kept when the catalog is reloaded.
type itemState struct {
	Snapshot   atomic.Pointer[snapshot]
	refreshing atomic.Bool
	generation atomic.Int64 // the watcher's generation in which Redis was verified to have the item; 0: it was not, or has lost it since

	revision   atomic.Int64           // of the definition that Redis was last seen to have
	missing    atomic.Pointer[string] // why the latest look found that Redis lacks it, as in look.lua; nil: it did not
	unreadable atomic.Bool            // the server answered the latest look with an error
	seen       [2]atomic.Int64        // the highest counts that this process has read: of all writes to the item, and of its own

	Reserving, Repeating *batch.Batcher[Request, Decision] // new requests, and repeated ones

	mu      sync.RWMutex
	holders map[uint64]struct{} // hashes of the first read entries of Redis' list, guarded by mu
	read    int                 // guarded by mu
}

const (
	reserveMax    = 32               // orders of one script, which blocks its server for about a millisecond
	scriptsAtOnce = 2                // per item
	scriptRest    = time.Millisecond // between scripts of an item
)

// A Request is an order on its way to Redis. Those of one item and mode share a script, since the fixed cost of a script is as
// high as the cost of one order. The first of a batch runs it for all.
type Request interface {
	Run(ctx context.Context, calls []*batch.Call[Request, Decision])
}

// Decision is the result of a request.
type Decision struct {
	Out   orders.Outcome
	Held  orders.ID // the committed order that has the identity; the database has its state
	Noted bool      // the ledger has the order
}

func newBatcher() *batch.Batcher[Request, Decision] {
	return batch.New(reserveMax, scriptsAtOnce,
		func(ctx context.Context, calls []*batch.Call[Request, Decision]) { calls[0].In.Run(ctx, calls) }).Rest(scriptRest, reserveMax/2)
}

// snapshot is a snapshot of an item's state in Redis.
type snapshot struct {
	at         time.Time
	now        time.Time     // Redis' clock
	switched   orders.Switch // as set in Redis
	free       int
	recovering bool
	complete   bool // all holders had been read
}

func newItemState() *itemState {
	return &itemState{Reserving: newBatcher(), Repeating: newBatcher(), holders: make(map[uint64]struct{})}
}

// HolderPrefix is the part of a buyer's hash that the list of holders keeps. If two buyers share it, requests of the second are
// decided in Redis. A row written by another program may be shorter, and must not prevent the sale from being rebuilt.
func HolderPrefix(buyerHash string) string { return buyerHash[:min(11, len(buyerHash))] }

// holderSeed keys the hashes of holders. They take a third of the memory of the entries themselves.
var holderSeed = maphash.MakeSeed()

func (m *itemState) Holds(buyerHash string) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	_, ok := m.holders[maphash.String(holderSeed, HolderPrefix(buyerHash))]
	return ok
}

// SeenBy returns the counts of a process as prelude.lua reads them.
func (ci *Item) SeenBy(writer string) string {
	buf := make([]byte, 0, 32)
	buf = strconv.AppendInt(buf, ci.itemState.seen[0].Load(), 10)
	buf = append(buf, ' ')
	buf = append(buf, writer...)
	buf = append(buf, ' ')
	return string(strconv.AppendInt(buf, ci.itemState.seen[1].Load(), 10))
}

// Saw raises seen to what a script has replied.
func (m *itemState) Saw(counts string) {
	all, own, _ := strings.Cut(counts, " ")
	for i, text := range []string{all, own} {
		count, _ := strconv.ParseInt(text, 10, 64) // 0 for none
		for {
			if seen := m.seen[i].Load(); count <= seen || m.seen[i].CompareAndSwap(seen, count) {
				break
			}
		}
	}
}

// Forget drops the snapshot, because something changed after it was taken.
func (m *itemState) Forget() { m.Snapshot.Store(nil) }

// Refusal returns the reason why new buyers get no units of the item, as far as the snapshot shows. An empty reason means that
// Redis has to decide. The reason must have applied when the snapshot was taken, too: only then were its holders complete.
func Refusal(sale *orders.Sale, g *snapshot, now time.Time) (orders.Reason, time.Duration) {
	if g == nil || time.Since(g.at) > snapshotTTL || g.recovering || !g.complete {
		return "", 0
	}
	if now.Sub(sale.StartsAt).Abs() < nearHours || now.Sub(sale.EndsAt).Abs() < nearHours {
		return "", 0
	}
	then := *sale
	then.Switch = g.switched
	state := then.StateAt(g.now)
	if state != sale.StateAt(now) {
		return "", 0
	}
	switch state {
	case orders.StateScheduled:
		if sale.Switch == orders.SwitchDraft {
			return orders.ReasonNotStarted, 0
		}
		return orders.ReasonNotStarted, sale.StartsAt.Sub(now)
	case orders.StatePaused:
		return orders.ReasonPaused, 0
	case orders.StateEnded, orders.StateClosed:
		return orders.ReasonEnded, 0
	}
	if g.free <= 0 {
		return orders.ReasonSoldOut, 0
	}
	return "", 0
}

// readSnapshot reads a new snapshot, and the holders that were not read yet.
func (w *Watch) readSnapshot(ctx context.Context, ci *Item) (*snapshot, error) {
	for {
		from, at := ci.known(), time.Now()
		g, err := w.tookSnapshot(ci, lua.Snapshot.Run(ctx, w.Batched, ci.Keys, from, holdersChunk, ci.SeenBy(w.Writer)), from, at)
		if err == nil {
			w.Clock.Read(g.now.UnixMilli())
		}
		if err != nil || g.complete {
			return g, err
		}
	}
}

// known returns how many entries of Redis' list of holders were read.
func (m *itemState) known() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.read
}

// tookSnapshot returns the snapshot in a reply of snapshot.lua, which was asked for the holders after the first from, at a time.
// It stores one that is complete.
func (w *Watch) tookSnapshot(ci *Item, d redisscript.Reply, from int, at time.Time) (*snapshot, error) {
	now := d.Int()
	if d.Err() == nil && d.Len() == 0 {
		return nil, w.Forgotten(ci)
	}
	ci.Saw(d.Text())
	g := &snapshot{at: at, now: time.UnixMilli(now), free: int(d.Int()), recovering: d.Int() == 1, switched: orders.Switch(d.Text())}
	count, further := int(d.Int()), d.Texts()
	if d.Err() != nil {
		return nil, core.Unavailable(d.Err())
	}
	ci.mu.Lock()
	if ci.read == from {
		for _, prefix := range further {
			ci.holders[maphash.String(holderSeed, prefix)] = struct{}{}
		}
		ci.read += len(further)
	}
	g.complete = ci.read >= count
	ci.mu.Unlock()
	if g.complete {
		ci.Snapshot.Store(g)
	}
	return g, nil
}

// RefreshSnapshot refreshes the snapshot in the background when g is nil or older than snapshotRefresh, one refresh at a time.
func (w *Watch) RefreshSnapshot(ci *Item, g *snapshot) {
	if g != nil && time.Since(g.at) < snapshotRefresh || !ci.refreshing.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer ci.refreshing.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), w.Timeout)
		defer cancel()
		_, _ = w.readSnapshot(ctx, ci) // without a snapshot the next caller asks Redis, and gets the error
	}()
}
