package orders

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// SaleStatus is a sale as it stands now.
type SaleStatus struct {
	Sale
	State State
	Now   time.Time      // Redis' clock
	Free  map[string]int // units left by item id; 0 for items that are recovering
}

// Sale returns the status of a sale, at most 200 ms old.
func (s *Service) Sale(ctx context.Context, sale string) (SaleStatus, error) {
	l, err := s.listing(sale)
	if err != nil {
		return SaleStatus{}, err
	}
	// Concurrent callers share one read.
	seen, err, _ := s.flights.Do("sale "+sale, func() (any, error) {
		var glances []*glance
		err := s.within(ctx, func(ctx context.Context) (err error) {
			glances, err = s.glances(ctx, l)
			return err
		})
		if err != nil {
			return nil, err // glances may still be written
		}
		return glances, nil
	})
	if err != nil {
		return SaleStatus{}, err
	}
	status := SaleStatus{Sale: l.Sale, Free: make(map[string]int, len(l.Items))}
	recovering := false
	glances := seen.([]*glance) // of the caller that did the read, whose catalog may have more items or fewer
	for i, sh := range l.all() {
		var g *glance
		if i < len(glances) {
			g = glances[i]
		}
		switch {
		case sh.forgottenAt(time.Now()):
		case g == nil || g.recovering || sh.generation.Load() != s.fence.generation.Load():
			recovering = true
		default:
			status.Free[sh.item.ID] = g.free
		}
	}
	now, _ := s.clock.now()
	status.Now = now.UTC()
	status.State = l.StateAt(now)
	if recovering && status.State != StateClosed && !l.shelves[l.Items[0].ID].forgottenAt(now) {
		status.State = StateRecovering
	}
	return status, nil
}

// glances returns the items' glances, at most 200 ms old, in the order of the items; nil for an item that Redis does not have.
func (s *Service) glances(ctx context.Context, l *listing) ([]*glance, error) {
	glances := make([]*glance, len(l.Items))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(64) // they share round trips
	for i, sh := range l.all() {
		if sh.forgottenAt(time.Now()) {
			continue
		}
		if glances[i] = sh.glance.Load(); glances[i] != nil && time.Since(glances[i].at) < glanceTTL {
			continue
		}
		g.Go(func() (err error) {
			if glances[i], err = s.look(ctx, sh); errors.Is(err, ErrRecovering) {
				err = nil
			}
			return err
		})
	}
	return glances, g.Wait()
}

// Sales returns the status of the sales whose names follow after, sorted by name: at most limit, 0 = all.
func (s *Service) Sales(ctx context.Context, after string, limit int) ([]SaleStatus, error) {
	c := s.catalog.Load()
	if !c.loaded {
		return nil, fmt.Errorf("%w: sales are not loaded yet", ErrUnavailable)
	}
	ids := slices.Sorted(maps.Keys(c.sales))
	first, found := slices.BinarySearch(ids, after)
	if found {
		first++
	}
	if ids = ids[first:]; limit > 0 {
		ids = ids[:min(limit, len(ids))]
	}
	list := make([]SaleStatus, len(ids))
	for i, id := range ids {
		var err error
		if list[i], err = s.Sale(ctx, id); err != nil {
			return nil, err
		}
	}
	return list, nil
}
