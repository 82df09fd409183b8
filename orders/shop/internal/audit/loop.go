package audit

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
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/shop/internal/catalog"
	"github.com/tidegate/tidegate/orders/shop/internal/reading"
)

const (
	verifyInterval = time.Minute
	// verifyPauseFactor bounds the cost of verifying: a round that took ten seconds is followed by a pause of 200.
	verifyPauseFactor = 20
	// verifyAgain is when a sale that is about to be rebuilt is verified again.
	verifyAgain = time.Second
	// verifyGather is how long sales that are new are collected after a round: each round is read and written whole.
	verifyGather = time.Second
	// schemaFor is how long a round, and the ones that follow at once, rely on one check of the schema. It costs more than a small sale.
	schemaFor = verifyInterval / 2
	// loadedLook is the pause between two looks whether the sales are loaded.
	loadedLook = 20 * time.Millisecond
	// verifyBefore is how long before its start a sale is first verified; it has no orders yet.
	verifyBefore = time.Hour
	// verifyAfter is how long after the last moment at which an order could expire a sale is still verified.
	verifyAfter = 24 * time.Hour
)

// VerifiedAt reports whether VerifyInBackground verifies the sale at a time.
func VerifiedAt(s *orders.Sale, now time.Time) bool {
	return s.StartsAt.Sub(now) <= verifyBefore && now.Sub(s.EndsAt) <= s.Hold+verifyAfter
}

func (a *Verifier) VerifyInBackground(ctx context.Context, report func(sale string, checks []orders.Check, at time.Time)) error {
	err := periodic.Until(ctx, loadedLook, func() bool {
		_, known := a.Clock.Now()
		return known && a.sales.Catalog.Load().Loaded
	})
	if err != nil {
		return err
	}
	b := backgroundVerifier{Verifier: a, report: report, rebuilt: make(map[string]bool)}
	return periodic.Woken(ctx, verifyInterval, a.Verifying, func() {
		defer periodic.Pause(ctx, verifyGather)
		now, _ := a.Clock.Now()
		round := a.lastRound(ctx, now)
		if due := a.dueSales(&round, now); len(due) > 0 {
			verified := false
			_, err := a.Store.Lead(ctx, storage.AllSales, func(ctx context.Context) error {
				round = a.lastRound(ctx, now) // another process may have verified just now
				if due := a.dueSales(&round, now); len(due) > 0 {
					verified = true
					b.verifySales(ctx, due, &round)
				}
				return nil
			})
			if err != nil && ctx.Err() == nil {
				a.Logger.WarnContext(ctx, "the sales could not be verified", slog.Any("error", err))
			}
			if verified {
				return
			}
		}
		for sale, r := range round.Sales {
			if !r.At.IsZero() {
				report(sale, r.Broken, time.Now().Add(r.At.Sub(now)))
			}
		}
	})
}

// backgroundVerifier is VerifyInBackground's state.
type backgroundVerifier struct {
	*Verifier
	report        func(sale string, checks []orders.Check, at time.Time)
	rebuilt       map[string]bool // sales that were rebuilt since they were last found in order
	schema        orders.Check
	schemaChecked time.Time
}

// verifyRound is what a process leaves for the others after it has verified the sales.
type verifyRound struct {
	Until time.Time               `json:"until"` // until when that is enough
	Sales map[string]verifyResult `json:"sales"`
}

type verifyResult struct {
	At     time.Time      `json:"at,omitzero"` // zero: the sale could not be verified
	Broken []orders.Check `json:"broken,omitempty"`
}

// lastRound returns the last round of any process, or an empty one if that is not enough any more, or cannot be read.
func (a *Verifier) lastRound(ctx context.Context, now time.Time) (r verifyRound) {
	text, err := a.Base.Get(ctx, a.VerifyRoundKey()).Bytes()
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		a.Logger.DebugContext(ctx, "results of verifications could not be read", slog.Any("error", err))
	}
	if r.Sales == nil || !now.Before(r.Until) {
		return verifyRound{Sales: make(map[string]verifyResult)}
	}
	return r
}

// dueSales returns the sales that are verified at a time and are not in a round, in the order of their ids.
func (a *Verifier) dueSales(round *verifyRound, now time.Time) (due []*catalog.Listing) {
	for id, l := range a.sales.Catalog.Load().Sales {
		if _, tried := round.Sales[id]; !tried && VerifiedAt(&l.Sale, now) {
			due = append(due, l)
		}
	}
	slices.SortFunc(due, func(a, b *catalog.Listing) int { return cmp.Compare(a.ID, b.ID) })
	return due
}

// verifySales verifies sales, and leaves the round with their results for the other processes.
func (a *backgroundVerifier) verifySales(ctx context.Context, due []*catalog.Listing, round *verifyRound) {
	began := time.Now()
	for _, l := range due {
		checks, err := a.verifyOrRebuild(ctx, l)
		if ctx.Err() != nil {
			return
		}
		round.Sales[l.ID] = verifyResult{}
		switch {
		case errors.Is(err, orders.ErrRecovering): // the process that recovers it logs that
			continue
		case err != nil:
			a.Logger.WarnContext(ctx, "a sale could not be verified", slog.String("sale", l.ID), slog.Any("error", err))
			continue
		}
		now, _ := a.Clock.Now()
		broken := slices.DeleteFunc(slices.Clone(checks), func(c orders.Check) bool { return c.OK })
		round.Sales[l.ID] = verifyResult{now, broken}
		a.report(l.ID, checks, time.Now())
		for _, c := range broken {
			a.Logger.ErrorContext(ctx, "an invariant is broken", slog.String("sale", l.ID), slog.String("invariant", c.Invariant),
				slog.Int("breaches", c.Breaches), slog.String("detail", c.Detail), slog.String("advice", c.Advice))
		}
	}
	now, _ := a.Clock.Now()
	if round.Until.IsZero() { // a process that comes a little early is content with this round
		round.Until = now.Add(max(verifyInterval*3/4, verifyPauseFactor*time.Since(began)))
	}
	text, err := json.Marshal(round)
	if err != nil {
		panic(err) // texts, times and numbers
	}
	if err := a.Base.Set(ctx, a.VerifyRoundKey(), text, max(round.Until.Sub(now), time.Second)).Err(); err != nil {
		a.Logger.DebugContext(ctx, "results of verifications could not be stored", slog.Any("error", err))
		return
	}
	a.notifier.Publish(ctx, reading.Notification{Verified: true})
}

// verifyOrRebuild verifies a sale. If Redis has lost entries of it, it is rebuilt unless it was since it was last found in order.
func (a *backgroundVerifier) verifyOrRebuild(ctx context.Context, l *catalog.Listing) (checks []orders.Check, err error) {
	if time.Since(a.schemaChecked) > schemaFor {
		if a.schema, err = a.verifySchema(ctx); err != nil {
			return nil, err
		}
		a.schemaChecked = time.Now()
	}
	checks, err = a.verifyWith(ctx, a.schema, l.ID)
	switch {
	case err != nil:
		return checks, err
	case !healable(checks):
		delete(a.rebuilt, l.ID)
	case !a.rebuilt[l.ID] && periodic.Pause(ctx, verifyAgain):
		if checks, err = a.verifyWith(ctx, a.schema, l.ID); err == nil && healable(checks) {
			a.rebuilt[l.ID] = true
			a.Suspects.Add(l.ID, l.Epoch)
		}
	}
	return checks, err
}

// healable reports whether Redis lacks entries of buyers, units or keys that the database has, which rebuilding the sale brings back.
func healable(checks []orders.Check) bool {
	return slices.ContainsFunc(checks, func(c orders.Check) bool {
		return !c.OK && (c.Invariant == "I4" || c.Invariant == "I6" || c.Invariant == "I7")
	})
}
