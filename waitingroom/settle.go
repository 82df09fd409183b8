package waitingroom

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// readStock brings the room's stock up to date. While it cannot be read, the room is stalled. A closed room reads none, because orders of
// its item need no turn any more.
func (s *Service) readStock(ctx context.Context, tx store.Tx, r *room) (final bool, err error) {
	if r.def.Sale == "" || r.ended() == PhaseClosed {
		r.saved.Stalled = false
		r.stopOrStartClock(r.saved.Now)
		return false, nil
	}
	final, err = s.settle(ctx, tx, r)
	if ctx.Err() != nil {
		return false, err
	}
	if err != nil && !r.saved.Stalled {
		s.opts.Logger.WarnContext(ctx, "a waiting room cannot read its stock, and stands still", slog.String("room", r.def.Room),
			slog.Any("error", err))
	}
	r.saved.Stalled = err != nil
	if r.saved.Sale == SaleEnded && r.ended() == "" {
		r.close()
	}
	r.stopOrStartClock(r.saved.Now)
	return final, nil
}

// settle sets the places that have ordered to done, and reads the stock into r. A place whose pass was revoked is one whose leave broke off
// before the commit: it has left.
func (s *Service) settle(ctx context.Context, tx store.Tx, r *room) (final bool, err error) {
	if s.opts.Stock == nil {
		return false, fmt.Errorf("%w: this program sells nothing", ErrUnavailable)
	}
	passes, err := tx.Passes(ctx, r.def.Room, r.roomTime(r.saved.Now)-settleBack.Milliseconds())
	if err != nil {
		return false, err
	}
	users, since := make([]string, len(passes)), make([]time.Time, len(passes))
	for i, p := range passes {
		users[i], since[i] = p.User, time.UnixMilli(p.AdmittedAt)
	}
	// Passes are read before the stock: an order in between makes the room promise less, not more.
	supply, err := s.opts.Stock.Look(ctx, r.def.Sale, r.def.Item, r.def.Room, users, since)
	if err != nil {
		return false, err
	}
	for i, order := range supply.Used {
		switch order {
		case "":
		case Revoked:
			err = tx.Leave(ctx, r.def.Room, passes[i:i+1])
		default:
			err = tx.Ordered(ctx, r.def.Room, passes[i], order, r.roomTime(r.saved.Now))
		}
		if err != nil {
			return false, err
		}
	}
	r.saved.Free, r.saved.LagMS, r.saved.Sale = int64(supply.Free), supply.Lag.Milliseconds(), supply.Sale
	return supply.Final, nil
}

// count counts the places of a room for budget.
func count(ctx context.Context, tx store.Tx, r *room) (store.Counts, error) {
	rt := r.roomTime(r.saved.Now)
	return tx.Count(ctx, r.def.Room, store.Moments{
		Now: rt, PassOver: rt - passSlack.Milliseconds(), Fresh: rt - claimDelay.Milliseconds(),
		Past: rt - (claimDelay + measured).Milliseconds(),
		Over: rt - measured.Milliseconds(), ClaimedAfter: r.saved.Now - measured.Milliseconds(),
	})
}

// lapse records places that lapsed, for their history only: state is computed.
func lapse(ctx context.Context, tx store.Tx, r *room, f *store.Counts) error {
	if f.Lapsing == 0 {
		return nil
	}
	rt := r.roomTime(r.saved.Now)
	return tx.Lapse(ctx, r.def.Room, rt-(claimDelay+measured).Milliseconds(), rt)
}
