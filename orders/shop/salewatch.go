package shop

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
	"github.com/tidegate/tidegate/redisclient"
)

// compareMax is how many items the watch compares with Redis every compareEvery besides those that have changed, so that thousands of sales
// cost little at rest, and a change of one costs the same whatever their number. Requests for a lost item are not served meanwhile: the
// scripts notice the loss, and have the sale recovered.
const (
	compareMax   = 250
	compareEvery = time.Second
)

// longReading is how long a reading of the sales takes after which the watch rests.
const longReading = 200 * time.Millisecond

// watch reads the sales and makes sure that Redis has them, every second, and whenever a notification reports a change or the watcher
// detects another Redis. After a reading that took long it rests, so that many changes of many sales leave time for orders.
func (w *catalogWatch) watch(ctx context.Context) error {
	generation := w.runIDs.Generation()
	var compared *catalog // all items of it have been compared, by this generation
	var rotation rotation
	shut := make(map[string]shutSale)
	return periodic.Woken(ctx, compareEvery, w.checkNow, func() {
		if w.checkForeign(ctx) {
			return
		}
		if now := w.runIDs.Generation(); now != generation {
			generation, compared = now, nil
			poke(w.replaced)
		}
		if err := w.readClock(ctx); err != nil && ctx.Err() == nil {
			w.logger.WarnContext(ctx, "Redis' clock could not be read", slog.Any("error", err))
		}
		began := time.Now()
		if err := w.loadCatalog(ctx); err != nil && ctx.Err() == nil {
			w.logger.WarnContext(ctx, "sales could not be read; those known stay in force", slog.Any("error", err))
		}
		if took := time.Since(began); took > longReading {
			defer periodic.Pause(ctx, min(time.Second, 9*took))
		}
		c := w.catalog.Load()
		items := w.remembered()
		due, all := items, compared == nil
		if !all {
			due = changedSince(compared, items, generation)
			if time.Since(rotation.at) >= compareEvery {
				due = append(due, rotation.turn(items)...)
			}
		}
		compared = nil
		lost, err := w.compare(ctx, due...)
		if lost && !all {
			_, err = w.compare(ctx, items...)
		}
		w.reportShut(shut)
		switch {
		case err == nil:
			compared = c
		case ctx.Err() == nil:
			w.logger.WarnContext(ctx, "sales could not be compared with Redis", slog.Any("error", err))
		}
		if errors.Is(err, errNoItem) {
			return // Redis answered for no item
		}
		w.compared.Store(c.loaded)
		if err := w.regressions.review(ctx, w.catalog.Load()); err != nil && ctx.Err() == nil {
			w.logger.WarnContext(ctx, "the database could not be compared with what was seen of it", slog.Any("error", err))
		}
	})
}

// changedSince returns the items that are not in a catalog as they are now, except those that this process, which changed them, has compared.
func changedSince(c *catalog, items []*cachedItem, generation int64) []*cachedItem {
	var changed []*cachedItem
	for _, ci := range items {
		if c.byNumber[ci.item.Number] != ci && (ci.generation.Load() != generation || ci.revision.Load() != ci.sale.Revision) {
			changed = append(changed, ci)
		}
	}
	return changed
}

// A rotation goes through all items, a part at a time.
type rotation struct {
	next int       // the item that the next part begins with
	at   time.Time // of the latest part
}

// turn returns the next part, of at most compareMax items.
func (r *rotation) turn(items []*cachedItem) []*cachedItem {
	if r.next >= len(items) {
		r.next = 0
	}
	part := items[r.next:min(r.next+compareMax, len(items))]
	r.next, r.at = r.next+len(part), time.Now()
	return part
}

// shutMost is how long all sales that are open may be shut until the process calls itself not ready.
const shutMost = 3 * time.Second

// A shutSale is a sale that cannot be ordered from because Redis does not have it.
type shutSale struct {
	since time.Time // when it was first found so
	why   string    // what was found first: lost or restarted; empty: it is being recovered already
}

// reportShut sets or clears the condition that sales cannot be ordered from because Redis does not have them. before has those that were found
// so.
func (w *catalogWatch) reportShut(before map[string]shutSale) {
	c, generation := w.catalog.Load(), w.runIDs.Generation()
	now, _ := w.clock.now()
	var unreadable []string
	rebuilt := make(map[string][]string) // by why
	open, usable := 0, 0
	for id, l := range c.sales {
		shut, failed, why := false, false, ""
		for _, ci := range l.cached {
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
		shut = shut && !w.over(&l.Sale)
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
		if c.sales[id] == nil {
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
		w.conditions.clear(orders.CauseSales)
		return
	}
	w.conditions.set(orders.Condition{Cause: orders.CauseSales, Detail: strings.Join(details, "; "), Serves: open == 0 || usable > 0})
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

// compare checks that the server that holds each item now is the one it was loaded into, and has it as this process last read it, with the latest
// definition. It updates the definition, and flags the sales of lost items for recovery. The error is that of the first item that could not
// be compared, and errNoItem if none could; the others are.
func (w *catalogWatch) compare(ctx context.Context, items ...*cachedItem) (lost bool, err error) {
	generation := w.runIDs.Generation() // read before all queries: a server that is replaced meanwhile raises it
	failed := 0
	seen := w.look(ctx, items)
	w.update(ctx, items, seen)
	for i, s := range seen {
		ci := items[i]
		if w.over(&ci.sale.Sale) {
			continue
		}
		ci.unreadable.Store(s.err != nil)
		switch {
		case s.err != nil:
			err = cmp.Or(err, s.err)
			failed++
		case s.lost:
			_ = w.forgotten(ci)
			ci.missing.Store(&s.why)
			lost = true
		default:
			ci.missing.Store(nil)
			ci.revision.Store(ci.sale.Revision)
			if ci.generation.Swap(generation) != generation {
				ci.forget()
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
func (w *catalogWatch) update(ctx context.Context, items []*cachedItem, seen []sighting) {
	var old []*cachedItem
	var at []int
	for i, s := range seen {
		if ci := items[i]; s.err == nil && !s.lost && s.revision < ci.sale.Revision && !w.over(&ci.sale.Sale) {
			old, at = append(old, ci), append(at, i)
		}
	}
	for i, err := range w.configure(ctx, old) {
		seen[at[i]].err = err
		old[i].forget()
	}
}

var errNoItem = errors.New("orders: no item could be compared with Redis")

// A sighting is what the server that holds an item has of it.
type sighting struct {
	revision int64
	lost     bool   // the server does not have the item as this process last read it, or the item is being recovered
	why      string // it is lost: lost, led or restarted, as in look.lua
	err      error  // of the server
}

// look returns what the servers have of items, in the same order.
func (w *catalogWatch) look(ctx context.Context, items []*cachedItem) []sighting {
	seen := make([]sighting, len(items))
	runs := make(serverRuns) // of each server, asked once
	calls, at := make([]itemCall, 0, len(items)), make([]int, 0, len(items))
	for i, ci := range items {
		var run string
		if run, seen[i].err = w.runOf(ctx, ci.keys[itemKey], runs); seen[i].err == nil {
			calls, at = append(calls, itemCall{ci, []any{run, ci.sale.Epoch, ci.sale.EpochToken, w.seen(ci)}}), append(at, i)
		}
	}
	for n, d := range w.runMany(ctx, lookScript, calls, triesFor(len(calls)), false) {
		i := at[n]
		if seen[i].lost = d.Err() == nil && d.Len() == 1; seen[i].lost {
			seen[i].why = d.Text()
		} else {
			seen[i].revision = d.Int()
			items[i].saw(d.Text())
		}
		seen[i].err = unavailable(d.Err())
	}
	return seen
}

// serverRuns are the answers of servers, by address, that were asked for their run id.
type serverRuns map[string]struct {
	id  string
	err error
}

// runOf returns the run id of the server that holds a key. It asks each server once, also if it fails, and stores the answer in runs.
func (w *catalogWatch) runOf(ctx context.Context, key string, runs serverRuns) (string, error) {
	var server redis.Cmdable = w.base
	addr := ""
	if cluster, ok := w.base.(*redis.ClusterClient); ok {
		master, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			return "", unavailable(err)
		}
		server, addr = master, master.Options().Addr
	}
	a, asked := runs[addr]
	if !asked {
		a.id, a.err = redisclient.RunID(ctx, server)
		a.err = unavailable(a.err)
		runs[addr] = a
	}
	return a.id, a.err
}

// verified returns the watcher's generation once Redis is verified to be the server that the item was loaded into, otherwise
// ErrRecovering.
func (w *catalogWatch) verified(ctx context.Context, ci *cachedItem) (generation int64, err error) {
	generation = w.runIDs.Generation()
	if generation > 0 && ci.generation.Load() == generation {
		return generation, nil
	}
	_, err, _ = w.flights.Do("compare "+ci.keys[itemKey], func() (any, error) {
		return within(ctx, w.core, func(ctx context.Context) (any, error) { return w.compare(ctx, ci) })
	})
	generation = ci.generation.Load()
	if err == nil && generation != w.runIDs.Generation() {
		err = orders.ErrRecovering
	}
	return generation, err
}
