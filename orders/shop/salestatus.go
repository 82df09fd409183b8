package shop

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/orders"
)

func (w *catalogWatch) Sale(ctx context.Context, sale string) (orders.SaleStatus, error) {
	l, err := w.listing(sale)
	if err != nil {
		return orders.SaleStatus{}, err
	}
	// Concurrent callers share one read.
	seen, err, _ := w.flights.Do("sale "+sale, func() (any, error) {
		return w.snapshots(context.WithoutCancel(ctx), l)
	})
	if err != nil {
		return orders.SaleStatus{}, err
	}
	status := orders.SaleStatus{Sale: l.Sale, Free: make(map[string]int, len(l.Items))}
	recovering := false
	snapshots := seen.([]*snapshot) // of the caller that did the read, whose catalog may have more items or fewer
	for i, ci := range l.all() {
		var g *snapshot
		if i < len(snapshots) {
			g = snapshots[i]
		}
		switch {
		case w.over(&l.Sale):
		case g == nil || g.recovering || ci.generation.Load() != w.runIDs.Generation():
			recovering = true
		default:
			status.Free[ci.item.ID] = g.free
		}
	}
	now, _ := w.clock.now()
	status.Now = now.UTC()
	status.State = l.StateAt(now)
	if recovering && status.State != orders.StateClosed && !w.over(&l.Sale) {
		status.State = orders.StateRecovering
	}
	return status, nil
}

// snapshots returns the items' snapshots, at most 200 ms old when they were read, in the order of the items; nil for an item that Redis does not
// have.
func (w *catalogWatch) snapshots(ctx context.Context, l *listing) ([]*snapshot, error) {
	snapshots := make([]*snapshot, len(l.Items))
	if w.over(&l.Sale) {
		return snapshots, nil
	}
	var calls []itemCall
	var at, from []int
	for i, ci := range l.all() {
		if snapshots[i] = ci.snapshot.Load(); snapshots[i] != nil && time.Since(snapshots[i].at) < snapshotTTL {
			continue
		}
		at, from = append(at, i), append(from, ci.known())
		calls = append(calls, itemCall{ci, []any{from[len(from)-1], holdersChunk / perTrip, w.seen(ci)}})
	}
	asked := time.Now()
	var further errgroup.Group
	further.SetLimit(64) // they share round trips
	for n, reply := range w.runMany(ctx, snapshotScript, calls, triesFor(len(calls)), true) {
		ci := calls[n].item
		g, err := w.tookSnapshot(ci, reply, from[n], asked)
		switch {
		case err != nil && !errors.Is(err, orders.ErrRecovering):
			return nil, errors.Join(err, further.Wait())
		case err != nil || g.complete:
			snapshots[at[n]] = g
		default: // it has more holders that are new to this process
			further.Go(func() (err error) {
				snapshots[at[n]], err = within(ctx, w.core, func(ctx context.Context) (*snapshot, error) { return w.readSnapshot(ctx, ci) })
				if errors.Is(err, orders.ErrRecovering) {
					err = nil
				}
				return err
			})
		}
	}
	return snapshots, further.Wait()
}

func (w *catalogWatch) SaleState(sale string) (orders.SaleStatus, error) {
	l, err := w.listing(sale)
	if err != nil {
		return orders.SaleStatus{}, err
	}
	now, _ := w.clock.now()
	return orders.SaleStatus{Sale: l.Sale, State: l.StateAt(now), Now: now.UTC()}, nil
}

func (w *catalogWatch) SaleStates() ([]orders.SaleStatus, error) {
	c := w.catalog.Load()
	if !c.loaded {
		return nil, errNotLoaded
	}
	now, _ := w.clock.now()
	list := make([]orders.SaleStatus, 0, len(c.sales))
	for _, id := range slices.Sorted(maps.Keys(c.sales)) {
		l := c.sales[id]
		list = append(list, orders.SaleStatus{Sale: l.Sale, State: l.StateAt(now), Now: now.UTC()})
	}
	return list, nil
}

func (w *catalogWatch) Sales(ctx context.Context, after string, limit int) ([]orders.SaleStatus, error) {
	c := w.catalog.Load()
	if !c.loaded {
		return nil, errNotLoaded
	}
	ids := slices.Sorted(maps.Keys(c.sales))
	first, found := slices.BinarySearch(ids, after)
	if found {
		first++
	}
	if ids = ids[first:]; limit > 0 {
		ids = ids[:min(limit, len(ids))]
	}
	list := make([]orders.SaleStatus, len(ids))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(64) // they share round trips
	for i, id := range ids {
		g.Go(func() (err error) {
			list[i], err = w.Sale(ctx, id)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return list, nil
}
