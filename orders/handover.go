package orders

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/orders/internal/failpoint"
)

const (
	heartbeatInterval = 500 * time.Millisecond
	heartbeatTimeout  = 2 * time.Second
	// leaseFor is how long after a heartbeat a process accepts orders.
	leaseFor = 5 * time.Second
	// silence is how long a leader waits for a process whose heartbeat does not change. It exceeds the lease by a margin for
	// clocks that run at different speeds and for replies in transit. A longer silence would be as safe, but
	// a sale would stay closed longer for a process that died just before.
	silence = 6 * time.Second
	// heartbeatGap is the longest time between two reads of the process list that does not restart the observation.
	heartbeatGap = 4 * heartbeatInterval
	// handOverMost is how long a leader waits for live processes that do not hand over. Then its attempt fails, and another one
	// begins.
	handOverMost = 30 * time.Second
	handOverLook = 20 * time.Millisecond
)

// sendHeartbeats sends this process's heartbeats to the database until ctx ends.
func (s *Service) sendHeartbeats(ctx context.Context) error {
	err := periodic.Woken(ctx, heartbeatInterval, nil, func() {
		ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
		defer cancel()
		sent := time.Now()
		list, err := s.store.Heartbeat(ctx, s.process)
		if err != nil {
			return // the lease ends by itself
		}
		now := time.Now()
		s.lease.renew(sent, now)
		if s.heartbeats.observe(sent, now, list) {
			s.replacedStore.Store(true)
			poke(s.checkNow)
		}
	})
	s.lease.end()
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), heartbeatTimeout)
	defer cancel()
	_ = s.store.Leave(leaving, s.process)
	return err
}

// handOvers hands over the orders that this process remembers of sales that are being recovered, until ctx ends.
func (s *Service) handOvers(ctx context.Context) error {
	acknowledged := make(map[string]Lead)
	return periodic.Woken(ctx, time.Second, s.handing, func() {
		for id, l := range s.catalog.Load().sales {
			lead := Lead{id, l.Epoch, l.EpochToken}
			if l.EpochFloor == l.Epoch || acknowledged[id] == lead {
				continue
			}
			if err := s.handOver(ctx, l); err != nil {
				if ctx.Err() == nil {
					s.opts.Logger.WarnContext(ctx, "what is remembered could not be handed over yet", slog.String("sale", id), slog.Any("error", err))
				}
				continue
			}
			acknowledged[id] = lead
		}
	})
}

// handOver commits the orders that this process remembers of earlier epochs, and acknowledges that in the database. From then
// on it ignores replies from earlier epochs. Orders that were committed recently are committed again, if the database has lost
// them.
func (s *Service) handOver(ctx context.Context, l *listing) error {
	remembered, committed := s.ledger.enter(l.ID, l.Epoch)
	lost, err := s.uncommitted(ctx, committed)
	if err != nil {
		return err
	}
	late, err := s.commitAll(ctx, slices.Concat(remembered, lost))
	if err != nil {
		return err
	}
	if len(remembered)+len(lost) > 0 {
		s.opts.Logger.InfoContext(ctx, "remembered orders were handed over", slog.String("sale", l.ID), slog.Int64("epoch", l.Epoch),
			slog.Int("orders", len(remembered)), slog.Int("committed_again", len(lost)), slog.Int("late", len(late)))
	}
	return s.store.Acknowledge(ctx, l.ID, l.Epoch, s.process, late)
}

// commitAll commits reservations of earlier epochs during a hand-over. It
// returns those that have to be reserved again: the database gave their units to
// other orders, or their epoch was over before.
func (s *Service) commitAll(ctx context.Context, list []Reservation) (late []Reservation, err error) {
	for part := range slices.Chunk(list, batchMax) {
		for i, err := range s.commitBatch(ctx, slices.Clone(part), nil) {
			switch {
			case errors.Is(err, ErrRecovering):
				late = append(late, part[i])
			case err != nil:
				return nil, err
			}
		}
	}
	return late, nil
}

// awaitHandOver ends the hand-over of a recovery when all processes that are not silent have handed over. It returns the orders
// that they could not commit.
func (s *Service) awaitHandOver(ctx context.Context, lead Lead) (late []Reservation, err error) {
	began := time.Now()
	for {
		asked := time.Now()
		list, err := s.store.HandOver(ctx, lead)
		if err != nil {
			return nil, err
		}
		s.heartbeats.observe(asked, time.Now(), list)
		silent, waitFor := s.heartbeats.awaited(asked, list)
		switch {
		case waitFor == 0:
			failpoint.Step(failpoint.LeaderEndsHandOver)
			if err := s.store.EndHandOver(ctx, lead, silent); err != nil {
				return nil, err
			}
			return s.store.Late(ctx, lead.Sale)
		case time.Since(began) > handOverMost:
			return nil, fmt.Errorf("%w: a process lives and does not hand over what it remembers of sale %s", ErrRecovering, lead.Sale)
		}
		if !periodic.Pause(ctx, handOverLook) {
			return nil, ctx.Err()
		}
	}
}
