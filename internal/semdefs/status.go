package semdefs

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/semaphore"
)

// Statuses returns how all semaphores stand that are defined, by name.
func (r *Registry) Statuses(ctx context.Context) ([]semaphore.Status, error) {
	all, err := r.Entries(ctx)
	if err != nil {
		return nil, err
	}
	return r.StatusesOf(ctx, all)
}

// StatusesOf returns how those of the entries stand that are defined, in their order.
func (r *Registry) StatusesOf(ctx context.Context, all []Entry) ([]semaphore.Status, error) {
	found := make([]semaphore.Status, len(all))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(64) // they share round trips
	for i := range all {
		if _, ok := all[i].InForce(); !ok {
			continue
		}
		g.Go(func() error {
			sem, err := r.set.Semaphore(all[i].Name)
			if err != nil {
				return err
			}
			found[i], err = sem.Status(ctx)
			if errors.Is(err, semaphore.ErrUnknown) { // it was taken back meanwhile
				return nil
			}
			return Away(err)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	defined := found[:0]
	for _, s := range found {
		if s.Name != "" {
			defined = append(defined, s)
		}
	}
	return defined, nil
}
