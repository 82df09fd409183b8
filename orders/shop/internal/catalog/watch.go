package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/lua"
	"github.com/tidegate/tidegate/redisclient"
)

// compareMax is how many items the watch compares with Redis every compareEvery besides those that have changed, so that thousands of sales
// cost little at rest, and a change of one costs the same whatever their number. Requests for a lost item are not served meanwhile: the
// scripts notice the loss, and have the sale recovered.
const (
	compareMax   = 100
	compareEvery = time.Second
)

// longReading is how long a reading of the sales takes after which the watch rests.
const longReading = 200 * time.Millisecond

// Watch reads the sales and makes sure that Redis has them, every second, and whenever a notification reports a change or the watcher
// detects another Redis. After a reading that took long it rests, so that many changes of many sales leave time for orders.
func (w *Watch) Watch(ctx context.Context) error {
	generation := w.RunIDs.Generation()
	var compared *Catalog // all items of it have been compared, by this generation
	var rotation Rotation
	var compareTurn time.Time // of the rotation
	shut := make(map[string]shutSale)
	return periodic.Woken(ctx, compareEvery, w.CheckNow, func() {
		if w.CheckForeign(ctx) {
			return
		}
		if now := w.RunIDs.Generation(); now != generation {
			generation, compared = now, nil
			core.Poke(w.Replaced)
		}
		if err := w.ReadClock(ctx); err != nil && ctx.Err() == nil {
			w.Logger.WarnContext(ctx, "Redis' clock could not be read", slog.Any("error", err))
		}
		began := time.Now()
		if err := w.loadCatalog(ctx); err != nil && ctx.Err() == nil {
			w.Logger.WarnContext(ctx, "sales could not be read; those known stay in force", slog.Any("error", err))
		}
		if took := time.Since(began); took > longReading {
			defer periodic.Pause(ctx, min(time.Second, 9*took))
		}
		c := w.Catalog.Load()
		items := w.Remembered()
		due, all := items, compared == nil
		if !all {
			due = changedSince(compared, items, generation)
			if time.Since(compareTurn) >= compareEvery {
				due, compareTurn = append(due, rotation.Turn(items, compareMax)...), time.Now()
			}
		}
		compared = nil
		lost, err := w.Compare(ctx, due...)
		if lost && !all {
			_, err = w.Compare(ctx, items...)
		}
		w.reportShut(shut)
		switch {
		case err == nil:
			compared = c
		case ctx.Err() == nil:
			w.Logger.WarnContext(ctx, "sales could not be compared with Redis", slog.Any("error", err))
		}
		if errors.Is(err, errNoItem) {
			return // Redis answered for no item
		}
		w.Compared.Store(c.Loaded)
		if err := w.regressions.review(ctx, w.Catalog.Load()); err != nil && ctx.Err() == nil {
			w.Logger.WarnContext(ctx, "the database could not be compared with what was seen of it", slog.Any("error", err))
		}
	})
}

// changedSince returns the items that are not in a catalog as they are now, except those that this process, which changed them,
// has compared.
func changedSince(c *Catalog, items []*Item, generation int64) []*Item {
	var changed []*Item
	for _, ci := range items {
		if c.ByNumber[ci.Item.Number] != ci && (ci.generation.Load() != generation || ci.revision.Load() != ci.Sale.Revision) {
			changed = append(changed, ci)
		}
	}
	return changed
}

// A Rotation goes through all items, a part at a time.
type Rotation struct {
	last int // number of the last item of the latest part
}

// Turn returns the next part of items, which are in the order of their numbers: at most so many.
func (r *Rotation) Turn(items []*Item, most int) []*Item {
	from, _ := slices.BinarySearchFunc(items, r.last+1, func(ci *Item, number int) int { return ci.Item.Number - number })
	if from == len(items) {
		from = 0
	}
	part := items[from:min(from+most, len(items))]
	if len(part) > 0 {
		r.last = part[len(part)-1].Item.Number
	}
	return part
}

// shutMost is how long all sales that are open may be shut until the process calls itself not ready.
const shutMost = 3 * time.Second

// A shutSale is a sale that cannot be ordered from because Redis does not have it.
type shutSale struct {
	since time.Time // when it was first found so
	why   string    // what was found first: lost or restarted; empty: it is being recovered already
}

// reportShut sets or clears the condition that sales cannot be ordered from because Redis does not have them. before has those
// that were found so.
func (w *Watch) reportShut(before map[string]shutSale) {
	c, generation := w.Catalog.Load(), w.RunIDs.Generation()
	now, _ := w.Clock.Now()
	var unreadable []string
	rebuilt := make(map[string][]string) // by why
	open, usable := 0, 0
	for id, l := range c.Sales {
		shut, failed, why := false, false, ""
		for _, ci := range l.Cached {
			if ci.generation.Load() == generation {
				continue
			}
			shut = true
			failed = failed || ci.unreadable.Load()
			// During a recovery the keys of its epoch may not be there yet.
			if missing := ci.missing.Load(); missing != nil && l.EpochFloor == l.Epoch && *missing != "led" && why != "lost" {
				why = *missing
			}
		}
		shut = shut && !w.Over(&l.Sale)
		if !shut {
			delete(before, id)
		} else if of, found := before[id]; !found || of.why == "" && why != "" {
			if !found {
				of.since = time.Now()
			}
			before[id] = shutSale{of.since, why}
		}
		if l.StateAt(now) == orders.StateOpen {
			if open++; !shut || time.Since(before[id].since) < shutMost {
				usable++
			}
		}
		if shut && failed {
			unreadable = append(unreadable, id)
		} else if shut {
			rebuilt[before[id].why] = append(rebuilt[before[id].why], id)
		}
	}
	for id := range before {
		if c.Sales[id] == nil {
			delete(before, id)
		}
	}
	var details []string
	if len(unreadable) > 0 {
		details = append(details, "cannot be read in Redis: "+someOf(unreadable))
	}
	for _, of := range []struct{ why, text string }{
		{"lost", "Redis has lost them or a part of them, and they are being rebuilt: "},
		{"restarted", "Redis was restarted or replaced and still has them, but may lack the latest writes, so they are being rebuilt: "},
		{"", "are being rebuilt: "},
	} {
		if sales := rebuilt[of.why]; len(sales) > 0 {
			details = append(details, of.text+someOf(sales))
		}
	}
	if details == nil {
		w.Conditions.Clear(orders.CauseSales)
		return
	}
	w.Conditions.Set(orders.Condition{Cause: orders.CauseSales, Detail: strings.Join(details, "; "), Serves: open == 0 || usable > 0})
}

// someOf lists at most ten names, in order.
func someOf(names []string) string {
	slices.Sort(names)
	text := strings.Join(names[:min(len(names), 10)], ", ")
	if more := len(names) - 10; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

// Compare checks that the server that holds each item now is the one it was loaded into, and has it as this process last read it,
// with the latest definition. It updates the definition, and flags the sales of lost items for recovery. The error is that of the
// first item that could not be compared, and errNoItem if none could; the others are.
func (w *Watch) Compare(ctx context.Context, items ...*Item) (lost bool, err error) {
	generation := w.RunIDs.Generation() // read before all queries: a server that is replaced meanwhile raises it
	failed := 0
	seen := w.Look(ctx, items)
	w.update(ctx, items, seen)
	for i, s := range seen {
		ci := items[i]
		if w.Over(&ci.Sale.Sale) {
			continue
		}
		ci.unreadable.Store(s.Err != nil)
		switch {
		case s.Err != nil:
			err = cmp.Or(err, s.Err)
			failed++
		case s.Lost:
			_ = w.Forgotten(ci)
			ci.missing.Store(&s.why)
			lost = true
		default:
			ci.missing.Store(nil)
			ci.revision.Store(ci.Sale.Revision)
			if ci.generation.Swap(generation) != generation {
				ci.Forget()
			}
			continue
		}
		ci.generation.Store(0)
	}
	if err != nil && failed == len(items) {
		err = fmt.Errorf("%w: %w", errNoItem, err)
	}
	return lost, err
}

// update updates the items whose definition the servers have in an earlier revision, and records errors in seen.
func (w *Watch) update(ctx context.Context, items []*Item, seen []sighting) {
	var old []*Item
	var at []int
	for i, s := range seen {
		if ci := items[i]; s.Err == nil && !s.Lost && s.revision < ci.Sale.Revision && !w.Over(&ci.Sale.Sale) {
			old, at = append(old, ci), append(at, i)
		}
	}
	for i, err := range w.configure(ctx, old) {
		seen[at[i]].Err = err
		old[i].Forget()
	}
}

var errNoItem = errors.New("orders: no item could be compared with Redis")

// A sighting is what the server that holds an item has of it.
type sighting struct {
	revision int64
	Lost     bool   // the server does not have the item as this process last read it, or the item is being recovered
	why      string // it is lost: lost, led or restarted, as in look.lua
	Err      error  // of the server
}

// Look returns what the servers have of items, in the same order.
func (w *Watch) Look(ctx context.Context, items []*Item) []sighting {
	seen := make([]sighting, len(items))
	runs := make(ServerRuns) // of each server, asked once
	calls, at := make([]Call, 0, len(items)), make([]int, 0, len(items))
	for i, ci := range items {
		var run string
		if run, seen[i].Err = w.runOf(ctx, ci.Keys[core.ItemKey], runs); seen[i].Err == nil {
			calls, at = append(calls, Call{ci, []any{run, ci.Sale.Epoch, ci.Sale.EpochToken, ci.SeenBy(w.Writer)}}), append(at, i)
		}
	}
	for n, d := range w.RunMany(ctx, lua.Look, calls, core.TriesFor(len(calls)), false) {
		i := at[n]
		if seen[i].Lost = d.Err() == nil && d.Len() == 1; seen[i].Lost {
			seen[i].why = d.Text()
		} else {
			seen[i].revision = d.Int()
			items[i].Saw(d.Text())
		}
		seen[i].Err = core.Unavailable(d.Err())
	}
	return seen
}

// ServerRuns are the answers of servers, by address, that were asked for their run id.
type ServerRuns map[string]struct {
	id  string
	err error
}

// runOf returns the run id of the server that holds a key. It asks each server once, also if it fails, and stores the answer in runs.
func (w *Watch) runOf(ctx context.Context, key string, runs ServerRuns) (string, error) {
	var server redis.Cmdable = w.Base
	addr := ""
	if cluster, ok := w.Base.(*redis.ClusterClient); ok {
		master, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			return "", core.Unavailable(err)
		}
		server, addr = master, master.Options().Addr
	}
	a, asked := runs[addr]
	if !asked {
		a.id, a.err = redisclient.RunID(ctx, server)
		a.err = core.Unavailable(a.err)
		runs[addr] = a
	}
	return a.id, a.err
}

// Verified returns the watcher's generation once Redis is verified to be the server that the item was loaded into, otherwise
// ErrRecovering.
func (w *Watch) Verified(ctx context.Context, ci *Item) (generation int64, err error) {
	generation = w.RunIDs.Generation()
	if generation > 0 && ci.generation.Load() == generation {
		return generation, nil
	}
	_, err, _ = w.flights.Do("compare "+ci.Keys[core.ItemKey], func() (any, error) {
		return core.Within(ctx, w.Core, func(ctx context.Context) (any, error) { return w.Compare(ctx, ci) })
	})
	generation = ci.generation.Load()
	if err == nil && generation != w.RunIDs.Generation() {
		err = orders.ErrRecovering
	}
	return generation, err
}
