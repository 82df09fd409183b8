package orders

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"
)

const (
	patrolEvery = time.Minute
	// patrolTurn is how long one process's turn blocks the others.
	patrolTurn = 50 * time.Second
	// patrolShare bounds the cost of verifying: a round that took ten seconds is followed by a pause of 200.
	patrolShare = 20
	// patrolBefore is how long before its start a sale is first verified; it has no orders yet.
	patrolBefore = time.Hour
	// patrolAfter is how long after the last moment at which an order could expire a sale is still verified.
	patrolAfter = 24 * time.Hour
)

// Patrolled reports whether Patrol verifies the sale at a time.
func (s *Sale) Patrolled(now time.Time) bool {
	return s.StartsAt.Sub(now) <= patrolBefore && now.Sub(s.EndsAt) <= s.Hold+patrolAfter
}

// Patrol verifies the sales that start soon, are open, or ended lately, about once a minute, and passes the results to report,
// until ctx ends. Only one process at a time does so.
func (s *Service) Patrol(ctx context.Context, report func(sale string, checks []Check)) error {
	resume := time.Now()
	return every(ctx, patrolEvery, nil, func() {
		c := s.catalog.Load()
		if !c.loaded || time.Now().Before(resume) || !s.patrolTurn(ctx) {
			return
		}
		began := time.Now()
		for _, id := range slices.Sorted(maps.Keys(c.sales)) {
			l := c.sales[id]
			if !l.Patrolled(time.Now()) {
				continue
			}
			checks, err := s.Verify(ctx, id)
			if ctx.Err() != nil {
				return
			}
			switch {
			case errors.Is(err, ErrRecovering): // the process that recovers it logs that
				continue
			case err != nil:
				s.opts.Logger.WarnContext(ctx, "a sale could not be verified", slog.String("sale", id), slog.Any("error", err))
				continue
			}
			report(id, checks)
			for _, c := range checks {
				if !c.OK {
					s.opts.Logger.ErrorContext(ctx, "an invariant is broken", slog.String("sale", id), slog.String("invariant", c.Invariant),
						slog.Int("breaches", c.Breaches), slog.String("detail", c.Detail), slog.String("advice", c.Advice))
				}
			}
		}
		resume = time.Now().Add(patrolShare * time.Since(began))
	})
}

// patrolTurn acquires the turn, and returns false if another process has it.
func (s *Service) patrolTurn(ctx context.Context) bool {
	took, err := s.base.SetNX(ctx, s.patrolKey(), s.process, patrolTurn).Result()
	return err == nil && took
}
