package orders

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

const (
	beatEvery  = 500 * time.Millisecond
	beatWithin = time.Second
	// silence is after how long without a beat nobody waits for a process. What
	// it remembers is late when it comes back.
	silence = 3 * time.Second
	// longSilence is after how long nobody waits for a process that has had no
	// time yet to be heard since the leader began to listen.
	longSilence = time.Minute
	// handOverMost is how long a leader waits for processes that live and do not
	// hand over; then it gives up, and another attempt begins.
	handOverMost = 30 * time.Second
	handOverLook = 20 * time.Millisecond
)

// beat says that this process is alive until ctx ends.
func (s *Service) beat(ctx context.Context) error {
	err := every(ctx, beatEvery, nil, func() {
		ctx, cancel := context.WithTimeout(ctx, beatWithin)
		defer cancel()
		_ = s.store.Beat(ctx, s.process) // who is not heard is not waited for
	})
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), beatWithin)
	defer cancel()
	_ = s.store.Leave(leaving, s.process)
	return err
}

// handOvers hands over what this process remembers of sales that are being
// recovered, until ctx ends.
func (s *Service) handOvers(ctx context.Context) error {
	acknowledged := make(map[string]int64)
	return every(ctx, time.Second, s.handing, func() {
		for id, l := range s.catalog.Load().sales {
			if l.EpochFloor == l.Epoch || acknowledged[id] == l.Epoch {
				continue
			}
			if err := s.handOver(ctx, l); err != nil {
				if ctx.Err() == nil {
					s.opts.Logger.WarnContext(ctx, "what is remembered could not be handed over yet", slog.String("sale", id), slog.Any("error", err))
				}
				continue
			}
			acknowledged[id] = l.Epoch
		}
	})
}

// handOver commits what this process remembers of earlier epochs, and says that
// it did. From then on it accepts no answer of an earlier epoch any more.
func (s *Service) handOver(ctx context.Context, l *listing) error {
	remembered := s.ledger.enter(l.ID, l.Epoch)
	late, err := s.commitAll(ctx, remembered)
	if err != nil {
		return err
	}
	if len(remembered) > 0 {
		s.opts.Logger.InfoContext(ctx, "remembered orders were handed over", slog.String("sale", l.ID), slog.Int64("epoch", l.Epoch),
			slog.Int("orders", len(remembered)), slog.Int("late", len(late)))
	}
	return s.store.Acknowledge(ctx, l.ID, l.Epoch, s.process)
}

// commitAll commits reservations of earlier epochs during a hand-over. It
// returns those that have to be readmitted: the database gave their units to
// other orders.
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

// awaitHandOver ends the hand-over of a recovery when all processes that are
// alive have handed over.
func (s *Service) awaitHandOver(ctx context.Context, l *listing) error {
	began := time.Now()
	for {
		silent := silence
		if time.Since(began) < silence {
			silent = longSilence // it may be the database that was away, and heard nobody
		}
		all, err := s.store.Acknowledged(ctx, l.ID, l.Epoch, silent)
		switch {
		case err != nil:
			return err
		case all:
			return s.store.EndHandOver(ctx, l.ID, l.Epoch)
		case time.Since(began) > handOverMost:
			return fmt.Errorf("%w: a process lives and does not hand over what it remembers of sale %s", ErrRecovering, l.ID)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(handOverLook):
		}
	}
}
