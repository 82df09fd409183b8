package orders

import (
	"cmp"
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/redisclient"
)

// compareMax is how many items a turn of the watch compares with Redis if nothing has changed, so that thousands of sales cost little at
// rest. Requests for a lost item are not served meanwhile: the scripts notice the loss, and have the sale recovered.
const compareMax = 500

// longReading is how long a reading of the sales takes after which the watch rests.
const longReading = 200 * time.Millisecond

// watch reads the sales and makes sure that Redis has them, every second, and whenever a notification reports a change or the watcher
// detects another Redis. After a reading that took long it rests, so that many changes of many sales leave time for orders.
func (w *catalogWatch) watch(ctx context.Context) error {
	generation := w.runIDs.Generation()
	var compared *catalog // all items of it have been compared, by this generation
	next := 0             // the item that the next turn begins with
	return periodic.Woken(ctx, time.Second, w.checkNow, func() {
		if now := w.runIDs.Generation(); now != generation {
			generation, compared = now, nil
			poke(w.replaced)
		}
		began := time.Now()
		if err := w.loadCatalog(ctx); err != nil && ctx.Err() == nil {
			w.opts.Logger.WarnContext(ctx, "sales could not be read; those known stay in force", slog.Any("error", err))
		}
		if took := time.Since(began); took > longReading {
			defer periodic.Pause(ctx, min(time.Second, 9*took))
		}
		c := w.catalog.Load()
		items := c.remembered()
		due := items
		if c == compared && len(items) > compareMax {
			if next >= len(items) {
				next = 0
			}
			due = items[next:min(next+compareMax, len(items))]
			next += len(due)
		}
		compared = nil
		lost, err := w.compare(ctx, due...)
		if err == nil && lost && len(due) < len(items) {
			_, err = w.compare(ctx, items...)
		}
		if err != nil {
			if ctx.Err() == nil {
				w.opts.Logger.WarnContext(ctx, "the sales could not be compared with Redis", slog.Any("error", err))
			}
			return
		}
		compared = c
		w.compared.Store(c.loaded)
		if err := w.regressions.review(ctx, w.catalog.Load()); err != nil && ctx.Err() == nil {
			w.opts.Logger.WarnContext(ctx, "the database could not be compared with what was seen of it", slog.Any("error", err))
		}
	})
}

// compare checks that the server that holds each item now is the one it was loaded into, and that it has the latest definition.
// It updates the definition, and marks the sales of lost items for recovery.
func (w *catalogWatch) compare(ctx context.Context, items ...*cachedItem) (lost bool, err error) {
	generation := w.runIDs.Generation() // read before all queries: a server that is replaced meanwhile raises it
	known, err := w.known(ctx, items)
	if err != nil {
		return false, err
	}
	for i, ci := range items {
		switch revision := known[i]; {
		case ci.keysExpiredAt(time.Now()):
			continue
		case revision < 0:
			w.suspectLost(ci)
			lost = true
			continue
		case revision < ci.sale.Revision:
			if failed := w.configure(ctx, ci); failed != nil {
				err = cmp.Or(err, failed) // the servers of other items may answer
				continue
			}
			ci.forget()
		}
		if ci.generation.Swap(generation) != generation {
			ci.forget()
		}
	}
	return lost, err
}

// known returns the revision of each item on the server that holds it now, or -1 when that is not the one the item was loaded
// into, the item is being recovered, or its leader in Redis is a later one.
func (w *catalogWatch) known(ctx context.Context, items []*cachedItem) ([]int64, error) {
	runs := make(map[string]string) // of each server, asked once
	now := make([]string, len(items))
	for i, ci := range items {
		var err error
		if now[i], err = w.runOf(ctx, ci.keys[itemKey], runs); err != nil {
			return nil, unavailable(err)
		}
	}
	fields := make([]*redis.SliceCmd, len(items))
	leads := make([]*redis.SliceCmd, len(items))
	if _, err := w.base.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, ci := range items {
			fields[i] = p.HMGet(ctx, ci.keys[itemKey], "run", "recovering", "revision")
			leads[i] = p.HMGet(ctx, ci.lead, "epoch", "token")
		}
		return nil
	}); err != nil {
		return nil, unavailable(err)
	}
	revisions := make([]int64, len(items))
	for i, cmd := range fields {
		it := cmd.Val()
		if it[0] != now[i] || it[1] != nil || items[i].sale.behind(leads[i].Val()) {
			revisions[i] = -1
			continue
		}
		d := decoder{reply: it[2:]}
		if revisions[i] = d.int64(); d.err != nil {
			return nil, d.err
		}
	}
	return revisions, nil
}

// behind reports whether the item's leader in Redis has a later epoch than the listing, or the same epoch and another token.
func (l *listing) behind(lead []any) bool {
	epoch, _ := lead[0].(string)
	if epoch == "" {
		return false
	}
	n, err := strconv.ParseInt(epoch, 10, 64)
	return err != nil || n > l.Epoch || n == l.Epoch && lead[1] != l.EpochToken
}

// runOf returns the run id of the server that holds a key. It asks each server once and stores the answer in runs.
func (w *catalogWatch) runOf(ctx context.Context, key string, runs map[string]string) (string, error) {
	var server redis.Cmdable = w.base
	addr := ""
	if cluster, ok := w.base.(*redis.ClusterClient); ok {
		master, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			return "", err
		}
		server, addr = master, master.Options().Addr
	}
	if run, asked := runs[addr]; asked {
		return run, nil
	}
	run, err := redisclient.RunID(ctx, server)
	runs[addr] = run
	return run, err
}

// verified returns the watcher's generation once Redis is verified to be the server that the item was loaded into, otherwise
// ErrRecovering.
func (w *catalogWatch) verified(ctx context.Context, ci *cachedItem) (generation int64, err error) {
	generation = w.runIDs.Generation()
	if ci.generation.Load() == generation {
		return generation, nil
	}
	_, err, _ = w.flights.Do("compare "+ci.keys[itemKey], func() (any, error) {
		return within(ctx, w.core, func(ctx context.Context) (any, error) { return w.compare(ctx, ci) })
	})
	generation = ci.generation.Load()
	if err == nil && generation != w.runIDs.Generation() {
		err = ErrRecovering
	}
	return generation, err
}

// suspectLost schedules a check of whether Redis still has the item, which recovers the sale if it does not.
func (w *catalogWatch) suspectLost(ci *cachedItem) { w.suspects.add(ci.sale.ID) }
