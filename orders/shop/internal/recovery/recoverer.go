// Package recovery rebuilds sales that Redis lost, or that the database turned back. docs/recovery.md has the steps.
package recovery

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/shop/internal/catalog"
	"github.com/tidegate/tidegate/orders/shop/internal/commit"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/members"
	"github.com/tidegate/tidegate/orders/shop/internal/reading"
)

// retryRecovery is the pause of a sale after an attempt that failed. Without it
// the next request for the sale would start another attempt at once. The pause
// doubles after each attempt that raised the epoch, because every epoch leaves
// keys that later attempts have to look for.
const (
	retryRecovery     = 200 * time.Millisecond
	retryRecoveryMost = 5 * time.Second
)

// pause of a sale that could not be rebuilt.
type pause struct {
	length time.Duration
	until  time.Time
}

// failed returns the pause after one more failure.
func (p pause) failed(raised bool, now time.Time) pause {
	switch {
	case p.length == 0:
		p.length = retryRecovery
	case raised:
		p.length = min(2*p.length, retryRecoveryMost)
	}
	p.until = now.Add(p.length)
	return p
}

// Recoverer rebuilds sales that Redis lost.
type Recoverer struct {
	*core.Core
	sales       *catalog.Watch
	regressions *catalog.Regressions
	members     *members.Membership
	notifier    *reading.Notifier
	committer   *commit.Committer
	leading     chan struct{} // holds a value while this process leads a sale
}

// New returns the part.
func New(
	c *core.Core, sales *catalog.Watch, regressions *catalog.Regressions, m *members.Membership, notifier *reading.Notifier,
	committer *commit.Committer,
) *Recoverer {
	return &Recoverer{
		Core: c, sales: sales, regressions: regressions, members: m, notifier: notifier, committer: committer, leading: make(chan struct{}, 1),
	}
}

// RecoverSales rebuilds sales that Redis forgot, until ctx ends.
func (rc *Recoverer) RecoverSales(ctx context.Context) error {
	pauses := make(map[string]pause)
	for {
		var pauseOver <-chan time.Time // of a suspect
		for _, sale := range rc.Suspects.All() {
			left := time.Until(pauses[sale].until)
			if rc.Foreign.Load() {
				left = retryRecovery
			}
			if left > 0 {
				pauseOver = time.After(min(left, retryRecovery))
				continue
			}
			damaged := rc.Suspects.Take(sale)
			raised, err := rc.recoverSale(ctx, sale, damaged)
			if err == nil {
				delete(pauses, sale)
			} else if ctx.Err() == nil {
				if damaged > 0 && !errors.Is(err, orders.ErrUnknownSale) {
					rc.Suspects.Add(sale, damaged)
				}
				pauses[sale] = pauses[sale].failed(raised, time.Now())
				rc.Logger.WarnContext(ctx, "a sale could not be rebuilt yet", slog.String("sale", sale),
					slog.Duration("pause", pauses[sale].length), slog.Any("error", err))
			}
			if ctx.Err() != nil {
				break
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-rc.Suspects.Added:
		case <-pauseOver:
		}
	}
}

// recoverSale makes this process rebuild a sale that Redis lost, or that is damaged in the epoch damaged, or for which the database
// went back in time. docs/recovery.md numbers the steps. The lock of tryLead only avoids duplicate work: a leader that lost it
// goes on, and each step is refused if its data is in another epoch than the leader's.
func (rc *Recoverer) recoverSale(ctx context.Context, sale string, damaged int64) (raised bool, err error) {
	_, err = rc.tryLead(ctx, sale, func(ctx context.Context) error {
		l, err := rc.sales.Reread(ctx, sale)
		if err != nil {
			return err
		}
		if err := rc.ReadClock(ctx); err != nil || rc.Over(&l.Sale) {
			return err
		}
		highest, err := rc.highestEpoch(ctx, l)
		if err != nil {
			return err
		}
		if highest == l.Epoch && l.Epoch > damaged && rc.regressions.Unresolved(l) == 0 {
			if intact, err := rc.intact(ctx, l); intact || err != nil {
				return err // another process has recovered it, or the check failed
			}
		}
		if err := rc.writable(ctx, l); err != nil {
			return err
		}
		r := recovery{Recoverer: rc, lead: storage.Lead{Sale: sale, Epoch: highest + 1, Token: rand.Text()}, began: time.Now()}
		raised, err = r.raise(ctx, l.Epoch)
		if err != nil {
			return err
		}
		return r.run(ctx)
	})
	return raised, err
}

// tryLead runs fn as the sale's leader, or returns false when another process leads it. A process leads one sale at a time:
// leading holds a connection to the database, and fn needs another one.
func (rc *Recoverer) tryLead(ctx context.Context, sale string, fn func(context.Context) error) (bool, error) {
	select {
	case rc.leading <- struct{}{}:
		defer func() { <-rc.leading }()
	case <-ctx.Done():
		return false, fmt.Errorf("%w: another sale is being rebuilt: %w", orders.ErrUnavailable, ctx.Err())
	}
	return rc.Store.Lead(ctx, sale, fn)
}

// highestEpoch returns the highest epoch of the sale that is known to the database, this process or Redis.
func (rc *Recoverer) highestEpoch(ctx context.Context, l *catalog.Listing) (int64, error) {
	items := l.All()
	leads := make([]*redis.StringCmd, len(items))
	_ = rc.Pipelined(ctx, len(items), func(p redis.Pipeliner, i int) { leads[i] = p.HGet(ctx, items[i].Lead, "epoch") })
	highest := max(l.Epoch, rc.regressions.Unresolved(l))
	for _, cmd := range leads {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return 0, core.Unavailable(err)
		}
		epoch, _ := cmd.Int64() // a leader that is lost or cannot be read is none
		if epoch > highest {
			rc.regressions.Regressed(ctx, l.ID, epoch, "its epoch in Redis")
			highest = epoch
		}
	}
	return highest, nil
}

// intact reports whether Redis has every item of the sale that it should have.
func (rc *Recoverer) intact(ctx context.Context, l *catalog.Listing) (bool, error) {
	for _, sight := range rc.sales.Look(ctx, l.All()) {
		if sight.Err != nil {
			return false, sight.Err
		}
		if sight.Lost {
			return false, nil
		}
	}
	return true, nil
}

// writable writes a probe key beside the keys of each item, which expires after a second. A server that answers but refuses
// writes, because it is full for example, would make each attempt raise the epoch in vain.
func (rc *Recoverer) writable(ctx context.Context, l *catalog.Listing) error {
	return core.Unavailable(rc.Pipelined(ctx, len(l.Items), func(p redis.Pipeliner, i int) {
		p.Set(ctx, rc.ProbeKey(l.ID, l.Items[i].ID), "", core.ProbeFor)
	}))
}

// Lead runs fn as the sale's leader, for up to 25 seconds. It waits up to 10 seconds for another leader to finish.
func (rc *Recoverer) Lead(ctx context.Context, sale string, fn func(context.Context) error) error {
	const wait, work = 10 * time.Second, 25 * time.Second
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, wait+work) // so that fn has the time to do all that it has begun
	defer cancel()
	for {
		led, err := rc.tryLead(ctx, sale, fn)
		if led || err != nil {
			return err
		}
		if !periodic.Pause(ctx, 20*time.Millisecond) || time.Since(began) > wait {
			return fmt.Errorf("%w: another process has been changing sale %s for %v", orders.ErrUnavailable, sale, wait)
		}
	}
}
