package waitingroom

import (
	"context"
	"errors"
	"log/slog"

	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// tick gives turns in a room, unless another process has just done it. One transaction locks the room, so what it decides is still true
// when it is written. It reports whether people who wait have something to learn.
func (s *Service) tick(ctx context.Context, name string) (changed bool, err error) {
	var before, after room
	served := int64(0)
	err = s.store.InTx(ctx, func(tx store.Tx) error {
		r, err := lock(ctx, tx, name, tickEvery.Milliseconds()*3/4)
		if err != nil {
			return err
		}
		before, served = *r, r.served()
		defer func() { after = *r }()
		dt := r.saved.Now - r.saved.TickedAt
		if r.saved.TickedAt == 0 {
			dt = tickEvery.Milliseconds()
		}
		r.saved.TickedAt = r.saved.Now
		if r.ended() != "" { // passes may still be used
			if _, err := s.readStock(ctx, tx, r); err != nil {
				return err
			}
			f, err := count(ctx, tx, r)
			if err != nil {
				return err
			}
			if err := lapse(ctx, tx, r, &f); err != nil {
				return err
			}
			r.saved.Promised = f.OpenUnits + f.ActiveUnits
			return tx.Write(ctx, r.row())
		}
		if r.def.Mode == ModeDraw && !r.drawn() && r.saved.Now >= r.def.StartsAt.UnixMilli() {
			if err := s.drawOrder(ctx, tx, r); err != nil {
				return err
			}
		}
		if r.saved.Now < r.def.StartsAt.UnixMilli() || r.def.Mode == ModeDraw && !r.drawn() { // gathering places need the stock for their outlook
			if _, err := s.readStock(ctx, tx, r); err != nil {
				return err
			}
			return tx.Write(ctx, r.row())
		}
		if err := s.serve(ctx, tx, r, dt); err != nil {
			return err
		}
		return tx.Write(ctx, r.row())
	})
	switch log := s.opts.Logger.With(slog.String("room", name)); {
	case errors.Is(err, ErrUnknownRoom): // another process has just ticked it
		return false, nil
	case err != nil:
		return false, err
	case after.drawn() && !before.drawn():
		log.InfoContext(ctx, "a waiting room has drawn its order", slog.Int64("places", after.saved.NDrawn),
			slog.String("root", after.saved.Root))
	case after.listed() && !before.listed():
		log.InfoContext(ctx, "a waiting room waits for its beacon",
			slog.Int64("places", after.saved.NDrawn), slog.String("root", after.saved.Root), slog.Int64("round", after.saved.Beacon.Round))
	case after.ended() == PhaseClosed && before.ended() == "":
		log.InfoContext(ctx, "a waiting room ends with its sale", slog.Int64("waiting", after.saved.Joined-after.served()))
	case after.saved.Sale != before.saved.Sale:
		log.InfoContext(ctx, "a waiting room follows its sale", slog.String("sale_state", string(after.saved.Sale)))
	case after.ended() == PhaseExhausted && before.ended() == "":
		log.InfoContext(ctx, "a waiting room ends, for everything is sold", slog.Int64("waiting", after.saved.Joined-after.served()))
	}
	return after.served() != served || after.drawn() != before.drawn() || after.listed() != before.listed() ||
		after.ended() != before.ended() ||
		after.saved.Sale != before.saved.Sale, nil
}

// serve settles what became of passes, and moves the cursor.
func (s *Service) serve(ctx context.Context, tx store.Tx, r *room, dt int64) error {
	final, err := s.readStock(ctx, tx, r)
	if err != nil || r.saved.Stalled || r.ended() != "" {
		return err
	}
	f, err := count(ctx, tx, r)
	if err != nil {
		return err
	}
	r.saved.Promised = f.OpenUnits + f.ActiveUnits
	if err := lapse(ctx, tx, r, &f); err != nil {
		return err
	}
	r.adjustBrake(r.sinceTick)
	if r.saved.Held || r.waitsForSale(r.saved.Now) {
		return nil
	}
	if r.def.Sale != "" && final && r.saved.Free == 0 && f.Open == 0 && f.Active == 0 {
		return s.exhaust(ctx, r)
	}
	turns, units := r.budget(&f, dt)
	return s.advance(ctx, tx, r, turns, units)
}

// exhaust ends a room whose final stock is sold and paid.
func (s *Service) exhaust(ctx context.Context, r *room) error {
	unsettled, err := s.opts.Stock.Unsettled(ctx, r.def.Sale, r.def.Item)
	if err != nil || unsettled {
		return nil //nolint:nilerr // the next tick asks again
	}
	r.saved.Ended, r.saved.EndedAt = string(PhaseExhausted), r.saved.Now
	return nil
}

const (
	maxLook   = 20_000 // positions that a tick looks at, in all lanes; dead ones, of places that were given up, cost some microseconds each
	maxBarred = 2_000  // places that a tick bars
)

// advance gives turns to the next places, and moves the cursors behind them. Places that left, or are barred, take none.
func (s *Service) advance(ctx context.Context, tx store.Tx, r *room, turns, units int64) error {
	if turns == 0 || units == 0 || r.served() == r.saved.Joined {
		return nil
	}
	orders, err := r.orders()
	if err != nil {
		return err
	}
	queues := make([]queue, len(r.saved.Lanes))
	for i := range queues {
		queues[i] = newQueue(&r.saved.Lanes[i], &orders[i], maxLook/int64(len(r.saved.Lanes)))
	}
	waits := func(lane int) (yes, stop bool, err error) {
		p, err := queues[lane].nextPlace(ctx, tx, r)
		return p != nil, p == nil && queues[lane].more(), err
	}
	var given []store.Turn
	barred, nBarred := make(map[[2]string][]string), 0 // subjects, by reason and ban
	for int64(len(given)) < turns && units > 0 && nBarred < maxBarred {
		lane, ok, err := choose(r.saved.Lanes, waits)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		p := queues[lane].take()
		if why, by := s.opts.Banned(p.User); p.User != "" && why != "" {
			ban := [2]string{why, by}
			barred[ban], nBarred = append(barred[ban], p.Subject), nBarred+1
			continue
		}
		countTurn(&r.saved.Lanes[lane])
		quantity := min(int64(p.Quantity), units) // a turn is for at most as many as are left, so that no place blocks those behind
		units -= quantity
		given = append(given, store.Turn{Subject: p.Subject, Position: p.Position, Quantity: quantity})
	}
	for ban, subjects := range barred {
		if err := tx.Bar(ctx, r.def.Room, subjects, ban[0], ban[1]); err != nil {
			return err
		}
	}
	if len(given) == 0 {
		return nil
	}
	r.spend(int64(len(given)))
	for _, t := range given {
		r.saved.Promised += t.Quantity
	}
	rt := r.roomTime(r.saved.Now)
	return tx.GiveTurns(ctx, r.def.Room, given, rt, rt+r.def.ClaimWindow.Milliseconds())
}
