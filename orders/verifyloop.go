package orders

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/tidegate/tidegate/internal/periodic"
)

const (
	verifyInterval = time.Minute
	// verifyLockFor is how long one process's turn blocks the others.
	verifyLockFor = 50 * time.Second
	// verifyPauseFactor bounds the cost of verifying: a round that took ten seconds is followed by a pause of 200.
	verifyPauseFactor = 20
	// verifyAgain is when a sale that is about to be rebuilt is verified again.
	verifyAgain = time.Second
	// verifyBefore is how long before its start a sale is first verified; it has no orders yet.
	verifyBefore = time.Hour
	// verifyAfter is how long after the last moment at which an order could expire a sale is still verified.
	verifyAfter = 24 * time.Hour
)

// VerifiedAt reports whether VerifyInBackground verifies the sale at a time.
func (s *Sale) VerifiedAt(now time.Time) bool {
	return s.StartsAt.Sub(now) <= verifyBefore && now.Sub(s.EndsAt) <= s.Hold+verifyAfter
}

// VerifyInBackground verifies the sales that start soon, are open, or ended lately, about once a minute, and passes the results to report,
// until ctx ends. Only one process at a time does so. A sale of which Redis has lost entries is rebuilt, once until it is found in order.
func (a *verifier) VerifyInBackground(ctx context.Context, report func(sale string, checks []Check)) error {
	resume := time.Now()
	rebuilt := make(map[string]bool)
	return periodic.Woken(ctx, verifyInterval, nil, func() {
		c := a.sales.catalog.Load()
		if !c.loaded || time.Now().Before(resume) || !a.acquireVerifyLock(ctx) {
			return
		}
		began := time.Now()
		for _, id := range slices.Sorted(maps.Keys(c.sales)) {
			l := c.sales[id]
			if now, known := a.clock.now(); !known || !l.VerifiedAt(now) {
				continue
			}
			checks, err := a.Verify(ctx, id)
			if err == nil && healable(checks) && !rebuilt[id] && periodic.Pause(ctx, verifyAgain) {
				if checks, err = a.Verify(ctx, id); err == nil && healable(checks) {
					rebuilt[id] = true
					a.suspects.add(id, l.Epoch)
				}
			}
			if ctx.Err() != nil {
				return
			}
			switch {
			case errors.Is(err, ErrRecovering): // the process that recovers it logs that
				continue
			case err != nil:
				a.opts.Logger.WarnContext(ctx, "a sale could not be verified", slog.String("sale", id), slog.Any("error", err))
				continue
			}
			report(id, checks)
			if !healable(checks) {
				delete(rebuilt, id)
			}
			for _, c := range checks {
				if !c.OK {
					a.opts.Logger.ErrorContext(ctx, "an invariant is broken", slog.String("sale", id), slog.String("invariant", c.Invariant),
						slog.Int("breaches", c.Breaches), slog.String("detail", c.Detail), slog.String("advice", c.Advice))
				}
			}
		}
		resume = time.Now().Add(verifyPauseFactor * time.Since(began))
	})
}

// healable reports whether Redis lacks entries of buyers, units or keys that the database has, which rebuilding the sale brings back.
func healable(checks []Check) bool {
	return slices.ContainsFunc(checks, func(c Check) bool {
		return !c.OK && (c.Invariant == "I4" || c.Invariant == "I6" || c.Invariant == "I7")
	})
}

// acquireVerifyLock acquires the turn, and returns false if another process has it.
func (a *verifier) acquireVerifyLock(ctx context.Context) bool {
	took, err := a.base.SetNX(ctx, a.verifyLockKey(), a.process, verifyLockFor).Result()
	return err == nil && took
}
