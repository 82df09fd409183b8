package shop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/liveness"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
)

// Conditions returns every reason why this process cannot take or commit orders, or why accepted orders are in danger. It asks both
// servers.
func (s *Service) Conditions(ctx context.Context) (list []orders.Condition) {
	down := func(cause orders.Cause, err error, format string, args ...any) {
		list = append(list, orders.Condition{Cause: cause, Detail: fmt.Sprintf(format, args...), Err: err})
	}
	// Both stores, since an operator needs to see both, at once: neither uses up the other's time.
	answered := make(chan error, 1)
	go func() { answered <- s.core.Store.Ping(ctx) }()
	_, err := core.Within(ctx, s.core, func(ctx context.Context) (string, error) { return s.core.Batched.Ping(ctx).Result() })
	switch late := net.Error(nil); {
	case errors.As(err, &late) && late.Timeout():
		down(orders.CauseRedis, err, "Redis does not answer in time")
	case err != nil:
		down(orders.CauseRedis, err, "Redis does not answer")
	}
	if err := <-answered; err != nil {
		down(orders.CauseDatabase, err, "the database does not answer")
	}
	if list == nil {
		if !s.sales.Compared.Load() {
			down(orders.CauseLoading, nil, "the sales are not loaded yet")
		}
		if _, ok := s.membership.Lease.Held(time.Now()); !ok {
			down(orders.CauseLease, nil, "no heartbeat has reached the database for %v", liveness.LeaseFor)
		}
		if without := s.membership.Uncommitted(); s.opts.AcceptOnly && without >= liveness.LeaseFor {
			list = append(list, s.noWorker(ctx, without))
		}
	}
	if err := s.regressions.RegressionError(); err != nil {
		down(orders.CauseRegress, err, "the database went back in time, and sales are being rebuilt")
	}
	if redis, database := s.ClockOffsets(); max(redis.Abs(), database.Abs(), (redis-database).Abs()) > clocksMost {
		list = append(list, orders.Condition{
			Cause: orders.CauseClocks, Serves: true,
			Detail: fmt.Sprintf("compared with this process, Redis' clock is %+.1f s off and the database's %+.1f s", redis.Seconds(),
				database.Seconds()),
		})
	}
	return append(list, s.core.Conditions.All()...)
}

// noWorker describes that no worker has been known to commit for some time.
func (s *Service) noWorker(ctx context.Context, without time.Duration) orders.Condition {
	serves := without < core.CommitsWithin
	detail := fmt.Sprintf("no worker has committed orders, or proved that it could, for %v", without.Truncate(time.Second))
	if b, err := s.verifier.Backlog(ctx); err == nil && b.Orders > 0 {
		detail += fmt.Sprintf("; orders that wait: %d, the oldest for %v", b.Orders, b.Oldest.Truncate(time.Second))
	}
	if serves {
		detail += fmt.Sprintf("; new orders are accepted for %v more", (core.CommitsWithin - without).Round(time.Second))
	} else {
		detail += "; no new orders are accepted"
	}
	return orders.Condition{Cause: orders.CauseCommits, Detail: detail, Serves: serves}
}

// clocksMost is how far clocks may differ. Redis decides a sale's hours, and the database how long orders may be paid.
const clocksMost = time.Second

// ClockOffsets returns how far the clocks of Redis and the database are ahead of this process's, wrong by at most half a round
// trip; 0 before they are first read.
func (s *Service) ClockOffsets() (redis, database time.Duration) {
	return s.core.Clock.Offset(), s.core.Database.Offset()
}

// Ready returns the reasons why the service cannot take or commit orders, each a *Condition, or nil.
func (s *Service) Ready(ctx context.Context) error {
	var errs []error
	for _, c := range s.Conditions(ctx) {
		if !c.Serves {
			errs = append(errs, &c)
		}
	}
	return errors.Join(errs...)
}

const readyLook = 20 * time.Millisecond

// WaitReady returns when the service can take and commit orders: a moment after Run began, if the servers answer. When ctx ends first, it
// returns ctx's error and the reasons, as Ready does.
func (s *Service) WaitReady(ctx context.Context) error {
	for {
		err := s.Ready(ctx)
		if err == nil {
			return nil
		}
		if !periodic.Pause(ctx, readyLook) {
			return fmt.Errorf("orders: not ready: %w: %w", ctx.Err(), err)
		}
	}
}

// WaitLoaded returns when the sales are loaded and the process may accept orders, whether or not a worker commits them, or when
// ctx ends, with its error. Run must be running.
func (s *Service) WaitLoaded(ctx context.Context) error {
	for {
		if _, ok := s.membership.Lease.Held(time.Now()); ok && s.sales.Compared.Load() {
			return nil
		}
		if !periodic.Pause(ctx, readyLook) {
			return context.Cause(ctx)
		}
	}
}
