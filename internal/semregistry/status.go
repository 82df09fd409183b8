package semregistry

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/semaphore"
)

// An EntryStatus is a semaphore's entry with its state.
type EntryStatus struct {
	Entry  Entry
	Status semaphore.Status
}

// Counts returns the state of all defined semaphores by name, without holders and waiters.
func (r *Registry) Counts(ctx context.Context) ([]semaphore.Status, error) {
	all, err := r.Entries(ctx)
	if err != nil {
		return nil, err
	}
	statuses, err := r.statuses(ctx, all, (*semaphore.Semaphore).Counts)
	counts := make([]semaphore.Status, len(statuses))
	for i := range statuses {
		counts[i] = statuses[i].Status
	}
	return counts, err
}

// Statuses returns the state of those entries that are defined, in their order.
func (r *Registry) Statuses(ctx context.Context, all []Entry) ([]EntryStatus, error) {
	return r.statuses(ctx, all, (*semaphore.Semaphore).Status)
}

const atOnce = 64 // concurrent queries to Redis: they share round trips

func (r *Registry) statuses(
	ctx context.Context, all []Entry, ask func(*semaphore.Semaphore, context.Context) (semaphore.Status, error),
) ([]EntryStatus, error) {
	found := make([]EntryStatus, len(all))
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
			found[i] = EntryStatus{e, st}
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
