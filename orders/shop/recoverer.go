package shop

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

// recoverer rebuilds sales that Redis lost.
type recoverer struct {
	*core
	sales       *catalogWatch
	regressions *regressions
	members     *membership
	notifier    *notifier
	committer   *committer
	leading     chan struct{} // holds a value while this process leads a sale
}

// recoverSales rebuilds sales that Redis forgot, until ctx ends.
func (rc *recoverer) recoverSales(ctx context.Context) error {
	pauses := make(map[string]pause)
	for {
		var pauseOver <-chan time.Time // of a suspect
		for _, sale := range rc.suspects.all() {
			left := time.Until(pauses[sale].until)
			if rc.foreign.Load() {
				left = retryRecovery
			}
			if left > 0 {
				pauseOver = time.After(min(left, retryRecovery))
				continue
			}
			damaged := rc.suspects.take(sale)
			raised, err := rc.recoverSale(ctx, sale, damaged)
			if err == nil {
				delete(pauses, sale)
			} else if ctx.Err() == nil {
				if damaged > 0 && !errors.Is(err, orders.ErrUnknownSale) {
					rc.suspects.add(sale, damaged)
				}
				pauses[sale] = pauses[sale].failed(raised, time.Now())
				rc.logger.WarnContext(ctx, "a sale could not be rebuilt yet", slog.String("sale", sale),
					slog.Duration("pause", pauses[sale].length), slog.Any("error", err))
			}
			if ctx.Err() != nil {
				break
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-rc.suspects.added:
		case <-pauseOver:
		}
	}
}

// recoverSale makes this process rebuild a sale that Redis lost, or that is damaged in the epoch damaged, or for which the database
// went back in time. docs/recovery.md numbers the steps. The lock of tryLead only avoids duplicate work: a leader that lost it goes on, and each step is refused if
// its data is in another epoch than the leader's.
func (rc *recoverer) recoverSale(ctx context.Context, sale string, damaged int64) (raised bool, err error) {
	_, err = rc.tryLead(ctx, sale, func(ctx context.Context) error {
		l, err := rc.sales.reread(ctx, sale)
		if err != nil {
			return err
		}
		if err := rc.readClock(ctx); err != nil || rc.over(&l.Sale) {
			return err
		}
		highest, err := rc.highestEpoch(ctx, l)
		if err != nil {
			return err
		}
		if highest == l.Epoch && l.Epoch > damaged && rc.regressions.unresolved(l) == 0 {
			if intact, err := rc.intact(ctx, l); intact || err != nil {
				return err // another process has recovered it, or the check failed
			}
		}
		if err := rc.writable(ctx, l); err != nil {
			return err
		}
		r := recovery{recoverer: rc, lead: storage.Lead{Sale: sale, Epoch: highest + 1, Token: rand.Text()}, began: time.Now()}
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
func (rc *recoverer) tryLead(ctx context.Context, sale string, fn func(context.Context) error) (bool, error) {
	select {
	case rc.leading <- struct{}{}:
		defer func() { <-rc.leading }()
	case <-ctx.Done():
		return false, fmt.Errorf("%w: another sale is being rebuilt: %w", orders.ErrUnavailable, ctx.Err())
	}
	return rc.store.Lead(ctx, sale, fn)
}

// highestEpoch returns the highest epoch of the sale that is known to the database, this process or Redis.
func (rc *recoverer) highestEpoch(ctx context.Context, l *listing) (int64, error) {
	items := l.all()
	leads := make([]*redis.StringCmd, len(items))
	_ = rc.pipelined(ctx, len(items), func(p redis.Pipeliner, i int) { leads[i] = p.HGet(ctx, items[i].lead, "epoch") })
	highest := max(l.Epoch, rc.regressions.unresolved(l))
	for _, cmd := range leads {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return 0, unavailable(err)
		}
		epoch, _ := cmd.Int64() // a leader that is lost or cannot be read is none
		if epoch > highest {
			rc.regressions.regressed(ctx, l.ID, epoch, "its epoch in Redis")
			highest = epoch
		}
	}
	return highest, nil
}

// intact reports whether Redis has every item of the sale that it should have.
func (rc *recoverer) intact(ctx context.Context, l *listing) (bool, error) {
	for _, sight := range rc.sales.look(ctx, l.all()) {
		if sight.err != nil {
			return false, sight.err
		}
		if sight.lost {
			return false, nil
		}
	}
	return true, nil
}

// writable writes a probe key beside the keys of each item, which expires after a second. A server that answers but refuses
// writes, because it is full for example, would make each attempt raise the epoch in vain.
func (rc *recoverer) writable(ctx context.Context, l *listing) error {
	return unavailable(rc.pipelined(ctx, len(l.Items), func(p redis.Pipeliner, i int) {
		p.Set(ctx, rc.probeKey(l.ID, l.Items[i].ID), "", probeFor)
	}))
}

// lead runs fn as the sale's leader, for up to 25 seconds. It waits up to 10 seconds for another leader to finish.
func (rc *recoverer) lead(ctx context.Context, sale string, fn func(context.Context) error) error {
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
