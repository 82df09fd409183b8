package orders

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A database may go back in time: a standby takes over without the last commits. This is detected when the database lacks what
// a process or Redis has seen in it:
//
//   - a sale in a lower epoch, or in the same one of another leader: in the catalog of a process, or in Redis
//   - an order event: the newest one that any process or Redis has seen
//   - an order that was committed moments before the server was replaced
//
// The sales concerned are recovered in an epoch above the highest that the database, Redis or this process knows.

// regressed starts the recovery of a sale, in an epoch above the one that was seen.
func (s *Service) regressed(ctx context.Context, sale string, seen int64, evidence string) {
	if before, ok := s.regressions.Load(sale); ok && before.(int64) >= seen {
		return
	}
	s.regressions.Store(sale, seen)
	s.opts.Measures.Regressed()
	s.opts.Logger.ErrorContext(ctx, "the database went back in time; the sale is closed, and what is remembered is committed again",
		slog.String("sale", sale), slog.Int64("epoch", seen), slog.String("evidence", evidence))
	s.suspectSale(sale)
}

// allRegressed starts the recovery of every sale that Redis should have, each from its epoch in the previous review.
func (s *Service) allRegressed(ctx context.Context, evidence string) {
	for id, l := range s.reviewed.sales {
		if time.Now().Before(l.forgetAt()) {
			s.regressed(ctx, id, l.Epoch, evidence)
		}
	}
}

// unresolved returns the epoch in which a sale was seen before the database went back in time, or 0 when the sale is in a later
// one by now.
func (s *Service) unresolved(l *listing) int64 {
	seen, ok := s.regressions.Load(l.ID)
	if !ok || seen.(int64) < l.Epoch {
		s.regressions.Delete(l.ID)
		return 0
	}
	return seen.(int64)
}

// regressionError names the sales that are being recovered because the database went back in time, or is nil.
func (s *Service) regressionError() error {
	var sales []string
	s.regressions.Range(func(sale, _ any) bool {
		sales = append(sales, sale.(string))
		return len(sales) < 10
	})
	if sales == nil {
		return nil
	}
	return fmt.Errorf("%w: database: it went back in time; being recovered: %s", ErrRecovering, strings.Join(sales, ", "))
}

// compareCatalogs looks for sales that the database has in an earlier state than before.
func (s *Service) compareCatalogs(ctx context.Context, before, now *catalog) {
	for id, old := range before.sales {
		l, ok := now.sales[id]
		switch {
		case !ok && time.Now().Before(old.forgetAt()):
			s.opts.Logger.ErrorContext(ctx, "the database does not have a sale any more: it went back in time, or somebody deleted it", slog.String("sale", id))
		case ok && (l.Epoch < old.Epoch || l.Epoch == old.Epoch && l.EpochToken != old.EpochToken):
			s.regressed(ctx, id, old.Epoch, "its epoch")
		}
	}
	for id, l := range now.sales {
		if s.unresolved(l) > 0 {
			s.suspectSale(id) // the former leader may have failed
		}
	}
}

// review compares the database with what this process and Redis have seen of it.
func (s *Service) review(ctx context.Context) error {
	c := s.catalog.Load()
	seen, err := s.seenEvent(ctx)
	if err != nil {
		return err
	}
	newest, there, err := s.store.Newest(ctx, seen)
	if err != nil {
		return err
	}
	if s.reviewed == nil {
		s.reviewed = c
	}
	if !there {
		s.allRegressed(ctx, "order event "+strconv.FormatInt(seen.Seq, 10))
	}
	s.lastEvent = newest
	if newest != seen {
		if err := s.base.Set(ctx, s.lastEventKey(), strconv.FormatInt(newest.Seq, 10)+" "+newest.Order.String(), lastEventFor).Err(); err != nil {
			return unavailable(err)
		}
	}
	if s.replacedStore.Swap(false) {
		lost, err := s.uncommitted(ctx, s.ledger.committed())
		if err != nil {
			s.replacedStore.Store(true)
			return err
		}
		if len(lost) > 0 {
			s.allRegressed(ctx, fmt.Sprintf("%d orders that were committed", len(lost)))
		}
	}
	s.reviewed = c
	return nil
}

// seenEvent returns the newest order event that this process or Redis has seen.
func (s *Service) seenEvent(ctx context.Context) (LastEvent, error) {
	text, err := s.base.Get(ctx, s.lastEventKey()).Result()
	if errors.Is(err, redis.Nil) {
		return s.lastEvent, nil
	} else if err != nil {
		return LastEvent{}, unavailable(err)
	}
	number, id, _ := strings.Cut(text, " ")
	seq, err := strconv.ParseInt(number, 10, 64)
	var order ID
	if err == nil {
		order, err = ParseID(id)
	}
	if err != nil || seq < s.lastEvent.Seq {
		return s.lastEvent, nil //nolint:nilerr // an unreadable value is as good as none
	}
	return LastEvent{seq, order}, nil
}
