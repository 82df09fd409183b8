package waitingroom

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/tidegate/tidegate/internal/sqldb"
)

// readStock brings the room's stock up to date. While it cannot be read, the room is stalled. A closed room reads none, because orders of
// its item need no turn any more.
func (s *Service) readStock(ctx context.Context, tx sqldb.Conn, r *room) (final bool, err error) {
	if r.def.Sale == "" || r.ended == PhaseClosed {
		r.stalled = false
		r.stopOrStartClock(r.now)
		return false, nil
	}
	final, err = s.settle(ctx, tx, r)
	if ctx.Err() != nil {
		return false, err
	}
	if err != nil && !r.stalled {
		s.opts.Logger.WarnContext(ctx, "a waiting room cannot read its stock, and stands still", slog.String("room", r.def.Room), slog.Any("error", err))
	}
	r.stalled = err != nil
	if r.sale == SaleEnded && r.ended == "" {
		r.close()
	}
	r.stopOrStartClock(r.now)
	return final, nil
}

// settle sets the places that have ordered to done, and reads the stock into r. A place whose pass was revoked is one whose leave broke off
// before the commit: it has left.
func (s *Service) settle(ctx context.Context, tx sqldb.Conn, r *room) (final bool, err error) {
	if s.opts.Stock == nil {
		return false, fmt.Errorf("%w: this program sells nothing", ErrUnavailable)
	}
	passes, err := s.store.places(ctx, tx, r.def.Room, `active_rt > 0 AND active_rt > $2 AND admitted_at > 0 AND done_at = 0 AND left_at = 0 ORDER BY active_rt`,
		r.roomTime(r.now)-settleBack.Milliseconds())
	if err != nil {
		return false, err
	}
	users, since := make([]string, len(passes)), make([]time.Time, len(passes))
	for i, p := range passes {
		users[i], since[i] = p.user, time.UnixMilli(p.admittedAt)
	}
	// Passes are read before the stock: an order in between makes the room promise less, not more.
	supply, err := s.opts.Stock.Look(ctx, r.def.Sale, r.def.Item, r.def.Room, users, since)
	if err != nil {
		return false, err
	}
	for i, order := range supply.Used {
		switch order {
		case "":
			continue
		case Revoked:
			if err := s.store.update(ctx, tx, r.def.Room, setLeft, passes[i:i+1]); err != nil {
				return false, err
			}
			continue
		}
		const done = `done_at = {now ms}, order_id = $4, changed_at = {now ms}, `
		if _, err := s.store.updateOne(ctx, tx, r.def.Room, passes[i], done+uncounted(5), "", order, r.roomTime(r.now)); err != nil {
			return false, err
		}
	}
	r.free, r.lagMS, r.sale = int64(supply.Free), supply.Lag.Milliseconds(), supply.Sale
	return supply.Final, nil
}

// uncounted returns the assignment that ends the activity of a place that is done, at the room time of a parameter. Statistics of its turn
// still need the place for a while; the rest of its pass would only cost every tick and claim.
func uncounted(roomTime int) string {
	return fmt.Sprintf("active_rt = CASE WHEN until_rt > $%d THEN until_rt ELSE $%[1]d END", roomTime)
}

// count returns the facts for budget.
func (s *Service) count(ctx context.Context, tx sqldb.Conn, r *room) (*facts, error) {
	rt := r.roomTime(r.now)
	const (
		waits  = `admitted_at = 0 AND left_at = 0 AND barred = '' AND until_rt > $2`
		passes = `admitted_at > 0 AND done_at = 0 AND left_at = 0 AND pass_rt > $3`
		past   = `turn_rt <= $4 AND turn_rt > $5`
		over   = `until_rt <= $2 AND until_rt > $6`
	)
	f := &facts{}
	err := each(ctx, tx, `SELECT
			count(*) FILTER (WHERE `+waits+`), coalesce(sum(quantity) FILTER (WHERE `+waits+`), 0),
			count(*) FILTER (WHERE `+passes+`), coalesce(sum(quantity) FILTER (WHERE `+passes+`), 0),
			count(*) FILTER (WHERE admitted_at > $7), count(*) FILTER (WHERE `+waits+` AND turn_rt > $4),
			count(*) FILTER (WHERE `+past+`), count(*) FILTER (WHERE `+past+` AND admitted_at > 0),
			count(*) FILTER (WHERE `+over+`), count(*) FILTER (WHERE `+over+` AND admitted_at > 0),
			count(*) FILTER (WHERE `+lapses+`)
		FROM `+active("$5"), func(rows sqldb.Row) error {
		return rows.Scan(&f.open, &f.openUnits, &f.active, &f.activeUnits, &f.claimed, &f.fresh, &f.given, &f.taken, &f.over, &f.used, &f.lapsing)
	}, r.def.Room, rt, rt-passSlack.Milliseconds(), rt-claimDelay.Milliseconds(), rt-(claimDelay+measured).Milliseconds(), rt-measured.Milliseconds(),
		r.now-measured.Milliseconds())
	return f, err
}

// lapses selects places whose turn or pass is over, and which are not recorded as such.
const lapses = `active_rt <= $2 AND lapsed_at = 0 AND done_at = 0 AND left_at = 0 AND barred = ''`

// lapse records them, for their history only: state is computed. It leaves those that are locked to the next tick, because the lock may be that
// of somebody who joins again, who waits for other places of this transaction.
func (s *Service) lapse(ctx context.Context, tx sqldb.Conn, r *room, f *facts) error {
	if f.lapsing == 0 {
		return nil
	}
	over, err := s.store.places(ctx, tx, r.def.Room, `active_rt > 0 AND active_rt > $3 AND `+lapses+` ORDER BY active_rt {unlocked}`,
		r.roomTime(r.now), r.roomTime(r.now)-(claimDelay+measured).Milliseconds())
	if err != nil {
		return err
	}
	return s.store.update(ctx, tx, r.def.Room, `lapsed_at = {now ms}`, over)
}
