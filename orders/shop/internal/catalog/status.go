package catalog

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/lua"
)

func (w *Watch) Sale(ctx context.Context, sale string) (orders.SaleStatus, error) {
	l, err := w.Listing(sale)
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
	for i, ci := range l.All() {
		var g *snapshot
		if i < len(snapshots) {
			g = snapshots[i]
		}
		switch {
		case w.Over(&l.Sale):
		case g == nil || g.recovering || ci.generation.Load() != w.RunIDs.Generation():
			recovering = true
		default:
			status.Free[ci.Item.ID] = g.free
		}
	}
	now, _ := w.Clock.Now()
	status.Now = now.UTC()
	status.State = l.StateAt(now)
	if recovering && status.State != orders.StateClosed && !w.Over(&l.Sale) {
		status.State = orders.StateRecovering
	}
	return status, nil
}

// snapshots returns the items' snapshots, at most 200 ms old when they were read, in the order of the items; nil for an item that
// Redis does not have.
func (w *Watch) snapshots(ctx context.Context, l *Listing) ([]*snapshot, error) {
	snapshots := make([]*snapshot, len(l.Items))
	if w.Over(&l.Sale) {
		return snapshots, nil
	}
	var calls []Call
	var at, from []int
	for i, ci := range l.All() {
		if snapshots[i] = ci.Snapshot.Load(); snapshots[i] != nil && time.Since(snapshots[i].at) < snapshotTTL {
			continue
		}
		at, from = append(at, i), append(from, ci.known())
		calls = append(calls, Call{ci, []any{from[len(from)-1], holdersChunk / core.PerTrip, ci.SeenBy(w.Writer)}})
	}
	asked := time.Now()
	var further errgroup.Group
	further.SetLimit(64) // they share round trips
	for n, reply := range w.RunMany(ctx, lua.Snapshot, calls, core.TriesFor(len(calls)), true) {
		ci := calls[n].Item
		g, err := w.tookSnapshot(ci, reply, from[n], asked)
		switch {
		case err != nil && !errors.Is(err, orders.ErrRecovering):
			return nil, errors.Join(err, further.Wait())
		case err != nil || g.complete:
			snapshots[at[n]] = g
		default: // it has more holders that are new to this process
			further.Go(func() (err error) {
				snapshots[at[n]], err = core.Within(ctx, w.Core, func(ctx context.Context) (*snapshot, error) { return w.readSnapshot(ctx, ci) })
				if errors.Is(err, orders.ErrRecovering) {
					err = nil
				}
				return err
			})
		}
	}
	return snapshots, further.Wait()
}

func (w *Watch) SaleState(sale string) (orders.SaleStatus, error) {
	l, err := w.Listing(sale)
	if err != nil {
		return orders.SaleStatus{}, err
	}
	now, _ := w.Clock.Now()
	return orders.SaleStatus{Sale: l.Sale, State: l.StateAt(now), Now: now.UTC()}, nil
}

func (w *Watch) SaleStates() ([]orders.SaleStatus, error) {
	c := w.Catalog.Load()
	if !c.Loaded {
		return nil, core.ErrNotLoaded
	}
	now, _ := w.Clock.Now()
	list := make([]orders.SaleStatus, 0, len(c.Sales))
	for _, id := range slices.Sorted(maps.Keys(c.Sales)) {
		l := c.Sales[id]
		list = append(list, orders.SaleStatus{Sale: l.Sale, State: l.StateAt(now), Now: now.UTC()})
	}
	return list, nil
}

func (w *Watch) Sales(ctx context.Context, after string, limit int) ([]orders.SaleStatus, error) {
	c := w.Catalog.Load()
	if !c.Loaded {
		return nil, core.ErrNotLoaded
	}
	ids := slices.Sorted(maps.Keys(c.Sales))
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
