package orders

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

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

// VerifyInBackground verifies the sales that start soon, are open, or ended lately, at once and then about once a minute, until ctx ends. Only
// one process at a time does so. The results, also those of the other processes, are passed to report, with when the sale was verified by
// this process's clock; of those of others only the broken invariants. A sale of which Redis has lost entries is rebuilt, once until it is
// found in order.
func (a *verifier) VerifyInBackground(ctx context.Context, report func(sale string, checks []Check, at time.Time)) error {
	err := periodic.Until(ctx, readyLook, func() bool {
		_, known := a.clock.now()
		return known && a.sales.catalog.Load().loaded
	})
	if err != nil {
		return err
	}
	rebuilt := make(map[string]bool)
	return periodic.Woken(ctx, verifyInterval, a.verifying, func() {
		now, _ := a.clock.now()
		round := a.lastRound(ctx, now)
		if due := a.dueSales(&round, now); len(due) > 0 && a.acquireVerifyLock(ctx) {
			a.verifySales(ctx, due, &round, rebuilt, report)
			return
		}
		for sale, r := range round.Sales {
			if !r.At.IsZero() {
				report(sale, r.Broken, time.Now().Add(r.At.Sub(now)))
			}
		}
	})
}

// verifyRound is what a process leaves for the others after it has verified the sales.
type verifyRound struct {
	Until time.Time               `json:"until"` // until when that is enough
	Sales map[string]verifyResult `json:"sales"`
}

type verifyResult struct {
	At     time.Time `json:"at,omitzero"` // zero: the sale could not be verified
	Broken []Check   `json:"broken,omitempty"`
}

// lastRound returns the last round of any process, or an empty one if that is not enough any more, or cannot be read.
func (a *verifier) lastRound(ctx context.Context, now time.Time) (r verifyRound) {
	text, err := a.base.Get(ctx, a.verifyRoundKey()).Bytes()
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		a.opts.Logger.DebugContext(ctx, "results of verifications could not be read", slog.Any("error", err))
	}
	if r.Sales == nil || !now.Before(r.Until) {
		return verifyRound{Sales: make(map[string]verifyResult)}
	}
	return r
}

// dueSales returns the sales that are verified at a time and are not in a round, in the order of their ids.
func (a *verifier) dueSales(round *verifyRound, now time.Time) (due []*listing) {
	for id, l := range a.sales.catalog.Load().sales {
		if _, tried := round.Sales[id]; !tried && l.VerifiedAt(now) {
			due = append(due, l)
		}
	}
	slices.SortFunc(due, func(a, b *listing) int { return cmp.Compare(a.ID, b.ID) })
	return due
}

// verifySales verifies sales, and leaves the round with their results for the other processes.
func (a *verifier) verifySales(ctx context.Context, due []*listing, round *verifyRound, rebuilt map[string]bool,
	report func(sale string, checks []Check, at time.Time),
) {
	began := time.Now()
	for _, l := range due {
		checks, err := a.verifyOrRebuild(ctx, l, rebuilt)
		if ctx.Err() != nil {
			return
		}
		round.Sales[l.ID] = verifyResult{}
		switch {
		case errors.Is(err, ErrRecovering): // the process that recovers it logs that
			continue
		case err != nil:
			a.opts.Logger.WarnContext(ctx, "a sale could not be verified", slog.String("sale", l.ID), slog.Any("error", err))
			continue
		}
		now, _ := a.clock.now()
		broken := slices.DeleteFunc(slices.Clone(checks), func(c Check) bool { return c.OK })
		round.Sales[l.ID] = verifyResult{now, broken}
		report(l.ID, checks, time.Now())
		for _, c := range broken {
			a.opts.Logger.ErrorContext(ctx, "an invariant is broken", slog.String("sale", l.ID), slog.String("invariant", c.Invariant),
				slog.Int("breaches", c.Breaches), slog.String("detail", c.Detail), slog.String("advice", c.Advice))
		}
	}
	now, _ := a.clock.now()
	if round.Until.IsZero() { // a process that comes a little early is content with this round
		round.Until = now.Add(max(verifyInterval*3/4, verifyPauseFactor*time.Since(began)))
	}
	text, err := json.Marshal(round)
	if err != nil {
		panic(err) // texts, times and numbers
	}
	if err := a.base.Set(ctx, a.verifyRoundKey(), text, max(round.Until.Sub(now), time.Second)).Err(); err != nil {
		a.opts.Logger.DebugContext(ctx, "results of verifications could not be stored", slog.Any("error", err))
		return
	}
	if time.Since(began) < verifyLockFor/2 { // it is surely still this process's
		a.base.Del(ctx, a.verifyLockKey())
	}
	a.notifier.publish(ctx, notification{Verified: true})
}

// verifyOrRebuild verifies a sale. If Redis has lost entries of it, it is rebuilt unless it was since it was last found in order.
func (a *verifier) verifyOrRebuild(ctx context.Context, l *listing, rebuilt map[string]bool) (checks []Check, err error) {
	checks, err = a.Verify(ctx, l.ID)
	switch {
	case err != nil:
		return checks, err
	case !healable(checks):
		delete(rebuilt, l.ID)
	case !rebuilt[l.ID] && periodic.Pause(ctx, verifyAgain):
		if checks, err = a.Verify(ctx, l.ID); err == nil && healable(checks) {
			rebuilt[l.ID] = true
			a.suspects.add(l.ID, l.Epoch)
		}
	}
	return checks, err
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
