package semregistry

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/semaphore"
)

// A Standing is a semaphore's entry with its state.
type Standing struct {
	Entry  Entry
	Status semaphore.Status
}

// Counts returns the state of all defined semaphores by name, without holders and waiters.
func (r *Registry) Counts(ctx context.Context) ([]semaphore.Status, error) {
	all, err := r.Entries(ctx)
	if err != nil {
		return nil, err
	}
	standings, err := r.standings(ctx, all, (*semaphore.Semaphore).Counts)
	counts := make([]semaphore.Status, len(standings))
	for i := range standings {
		counts[i] = standings[i].Status
	}
	return counts, err
}

// Standings returns the state of those entries that are defined, in their order.
func (r *Registry) Standings(ctx context.Context, all []Entry) ([]Standing, error) {
	return r.standings(ctx, all, (*semaphore.Semaphore).Status)
}

const atOnce = 64 // concurrent queries to Redis: they share round trips

func (r *Registry) standings(ctx context.Context, all []Entry, ask func(*semaphore.Semaphore, context.Context) (semaphore.Status, error)) ([]Standing, error) {
	found := make([]Standing, len(all))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i, e := range all {
		if _, ok := e.InForce(); !ok {
			continue
		}
		g.Go(func() error {
			sem, err := r.set.Semaphore(e.Name)
			if err != nil {
				return err
			}
			st, err := ask(sem, ctx)
			switch {
			case errors.Is(err, semaphore.ErrUnknown): // it was removed in between
				return nil
			case err != nil:
				return Away(err)
			}
			found[i] = Standing{e, st}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	defined := found[:0]
	for _, s := range found {
		if s.Entry.Name != "" {
			defined = append(defined, s)
		}
	}
	return defined, nil
}
