package admission

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/internal/pubsub"
)

const (
	flushEvery = time.Second      // refusals without asking the store
	watchEvery = 10 * time.Second // how often a memorystore.Store is checked
)

// Run keeps the gate up to date until ctx ends; it then returns nil. It receives refunds, resets and bans of other processes, counts
// refusals that were made without the store and those of ChargeUnless, writes the ban history, frees unused memory, and reloads the rules
// when their files change. Without Run the gate still decides, but by older information, and nothing counts these refusals.
func (g *Gate) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { g.listen(ctx) })
	wg.Go(func() { _ = periodic.Every(ctx, flushEvery, func() { g.flush(ctx) }) })
	wg.Go(func() { _ = g.bans.Run(ctx) })
	wg.Go(func() { _ = g.local.Run(ctx) })
	if memory, ok := g.store.(*memorystore.Store); ok {
		late := false
		wg.Go(func() { _ = periodic.Every(ctx, watchEvery, func() { late = g.watchMemory(memory, late) }) })
	}
	wg.Go(func() { _ = g.live.Run(ctx) })
	wg.Wait()
	g.flush(ctx) // refusals of the last second
	g.bans.Flush(context.WithoutCancel(ctx))
	return nil
}

// watchMemory logs when the store's cleaning falls behind and when it has recovered. It returns whether it is late.
func (g *Gate) watchMemory(memory *memorystore.Store, before bool) (late bool) {
	for i, m := range memory.Stats() {
		if late = late || m.Late; m.Late && !before {
			g.opts.Logger.Warn("admission: a shard of the counts is not cleaned in time", "shard", i, "age", m.Cleaned, "subjects", m.Subjects)
		}
	}
	if before && !late {
		g.opts.Logger.Info("admission: all shards of the counts are cleaned in time again")
	}
	return late
}

// listen drops denials that other processes have made obsolete.
func (g *Gate) listen(ctx context.Context) {
	if !g.denied.remembers() {
		return
	}
	_ = pubsub.Follow(ctx, time.Second, func() error {
		defer g.denied.clear("") // notices may have been missed
		return g.store.Listen(ctx, g.keys.channel(), g.denied.clear)
	}, func(err error) {
		g.opts.Logger.Warn("admission: notices of what is taken back are not received; refusals may last a second longer", "error", err)
	})
}

// flush counts in the store the refusals that were made without asking it.
func (g *Gate) flush(ctx context.Context) {
	denials, tallies := g.denied.drain()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWithin) // a stop loses nothing
	defer cancel()
	var failure error
	uncounted, failed := 0, false
	for len(tallies) > 0 && ctx.Err() == nil && g.breaker.Allows() {
		n := min(len(tallies), flushBatch)
		within, cancel := context.WithTimeout(ctx, flushTimeout)
		counts, err := g.store.Decide(within, store.Call{Mode: store.Reject, Tallies: tallies[:n]})
		cancel()
		if err != nil {
			failure, uncounted = cmp.Or(failure, err), uncounted+n
		}
		switch {
		case err == nil, errors.Is(err, store.ErrTooMany): // overload is not an outage
			g.breaker.Succeeded()
		case !failed: // one failure in all: all batches may be for the one server of a cluster that does not answer
			failed = true
			g.breaker.Failed()
		}
		for i := range counts { // on a cluster, those of the nodes that answered
			if counts[i].Struck {
				g.bans.Queue(orderOf(denials[i].rule, denials[i].target))
			}
		}
		denials, tallies = denials[n:], tallies[n:]
	}
	if uncounted += len(tallies); uncounted > 0 {
		g.opts.Logger.Warn("admission: refusals not counted", "counters", uncounted, "error", cmp.Or(failure, errResting))
	}
}

const (
	flushBatch   = 100             // counters that one script updates: takes Redis less than a millisecond
	flushTimeout = time.Second     // of a batch, for which no caller waits
	flushWithin  = 5 * time.Second // of all, for which a stop waits
)
