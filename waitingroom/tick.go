package waitingroom

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/tidegate/tidegate/internal/sqldb"
)

// tick gives turns in a room, unless another process has just done it. One transaction locks the room, so what it decides is still true
// when it is written. It reports whether people who wait have something to learn.
func (s *Service) tick(ctx context.Context, name string) (changed bool, err error) {
	var before, after room
	served := int64(0)
	err = s.store.inTx(ctx, func(tx sqldb.Conn) error {
		r, err := s.store.lock(ctx, tx, name, tickEvery.Milliseconds()*3/4)
		if err != nil {
			return err
		}
		before, served = *r, r.served()
		defer func() { after = *r }()
		dt := r.now - r.tickedAt
		if r.tickedAt == 0 {
			dt = tickEvery.Milliseconds()
		}
		r.tickedAt = r.now
		if r.ended != "" { // passes may still be used
			if _, err := s.readStock(ctx, tx, r); err != nil {
				return err
			}
			f, err := s.count(ctx, tx, r)
			if err != nil {
				return err
			}
			if err := s.lapse(ctx, tx, r, f); err != nil {
				return err
			}
			r.promised = f.openUnits + f.activeUnits
			return s.store.write(ctx, tx, r)
		}
		if r.def.Mode == ModeDraw && !r.drawn() && r.now >= r.def.StartsAt.UnixMilli() {
			if err := s.drawOrder(ctx, tx, r); err != nil {
				return err
			}
		}
		if r.now < r.def.StartsAt.UnixMilli() || r.def.Mode == ModeDraw && !r.drawn() { // gathering places need the stock for their outlook
			if _, err := s.readStock(ctx, tx, r); err != nil {
				return err
			}
			return s.store.write(ctx, tx, r)
		}
		if err := s.serve(ctx, tx, r, dt); err != nil {
			return err
		}
		return s.store.write(ctx, tx, r)
	})
	switch log := s.opts.Logger.With(slog.String("room", name)); {
	case errors.Is(err, ErrUnknownRoom): // another process has just ticked it
		return false, nil
	case err != nil:
		return false, err
	case after.drawn() && !before.drawn():
		log.InfoContext(ctx, "a waiting room has drawn its order", slog.Int64("places", after.nDrawn), slog.String("root", after.root))
	case after.listed() && !before.listed():
		log.InfoContext(ctx, "a waiting room waits for its beacon",
			slog.Int64("places", after.nDrawn), slog.String("root", after.root), slog.Int64("round", after.beacon.Round))
	case after.ended == PhaseClosed && before.ended == "":
		log.InfoContext(ctx, "a waiting room ends with its sale", slog.Int64("waiting", after.joined-after.served()))
	case after.sale != before.sale:
		log.InfoContext(ctx, "a waiting room follows its sale", slog.String("sale_state", string(after.sale)))
	case after.ended == PhaseExhausted && before.ended == "":
		log.InfoContext(ctx, "a waiting room ends, for everything is sold", slog.Int64("waiting", after.joined-after.served()))
	}
	return after.served() != served || after.drawn() != before.drawn() || after.listed() != before.listed() || after.ended != before.ended ||
		after.sale != before.sale, nil
}

// serve settles what became of passes, and moves the cursor.
func (s *Service) serve(ctx context.Context, tx sqldb.Conn, r *room, dt int64) error {
	final, err := s.readStock(ctx, tx, r)
	if err != nil || r.stalled || r.ended != "" {
		return err
	}
	f, err := s.count(ctx, tx, r)
	if err != nil {
		return err
	}
	r.promised = f.openUnits + f.activeUnits
	if err := s.lapse(ctx, tx, r, f); err != nil {
		return err
	}
	r.adjustBrake(r.sinceTick)
	if r.held || r.waitsForSale(r.now) {
		return nil
	}
	if r.def.Sale != "" && final && r.free == 0 && f.open == 0 && f.active == 0 {
		return s.exhaust(ctx, r)
	}
	turns, units := r.budget(f, dt)
	return s.advance(ctx, tx, r, turns, units)
}

// exhaust ends a room whose final stock is sold and paid.
func (s *Service) exhaust(ctx context.Context, r *room) error {
	unsettled, err := s.opts.Stock.Unsettled(ctx, r.def.Sale, r.def.Item)
	if err != nil || unsettled {
		return nil //nolint:nilerr // the next tick asks again
	}
	r.ended, r.endedAt = PhaseExhausted, r.now
	return nil
}

const (
	maxLook   = 20_000 // positions that a tick looks at, in all lanes; dead ones, of places that were given up, cost some microseconds each
	maxBarred = 2_000  // places that a tick bars
)

// advance gives turns to the next places, and moves the cursors behind them. Places that left, or are barred, take none.
func (s *Service) advance(ctx context.Context, tx sqldb.Conn, r *room, turns, units int64) error {
	if turns == 0 || units == 0 || r.served() == r.joined {
		return nil
	}
	orders, err := r.orders()
	if err != nil {
		return err
	}
	queues := make([]queue, len(r.lanes))
	for i := range queues {
		queues[i] = newQueue(&r.lanes[i], &orders[i], maxLook/int64(len(r.lanes)))
	}
	waits := func(lane int) (yes, stop bool, err error) {
		p, err := s.nextPlace(ctx, tx, r, &queues[lane])
		return p != nil, p == nil && queues[lane].more(), err
	}
	var given []turn
	barred, nBarred := make(map[[2]string][]string), 0 // subjects, by reason and ban
	for int64(len(given)) < turns && units > 0 && nBarred < maxBarred {
		lane, ok, err := choose(r.lanes, waits)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		p := queues[lane].take()
		if why, by := s.opts.Banned(p.user); p.user != "" && why != "" {
			ban := [2]string{why, by}
			barred[ban], nBarred = append(barred[ban], p.subject), nBarred+1
			continue
		}
		r.lanes[lane].countTurn()
		quantity := min(int64(p.quantity), units) // a turn is for at most as many as are left, so that no place blocks those behind
		units -= quantity
		given = append(given, turn{p.subject, p.position, quantity})
	}
	for ban, subjects := range barred {
		if _, err := exec(ctx, tx, `UPDATE waiting_places SET barred = $3, barred_by = $4, changed_at = {now ms} WHERE `+current+` AND subject {texts}`,
			r.def.Room, subjects, ban[0], ban[1]); err != nil {
			return err
		}
	}
	if len(given) == 0 {
		return nil
	}
	r.spend(int64(len(given)))
	for _, t := range given {
		r.promised += t.Quantity
	}
	rt := r.roomTime(r.now)
	for part := range slices.Chunk(given, batchMax) { // Postgres may compare each turn with each place
		if _, err := exec(ctx, tx, `UPDATE waiting_places SET position = j.position, quantity = j.quantity, turn_rt = $2, until_rt = $4, active_rt = $4, turn_at = {now ms}, changed_at = {now ms}
		FROM `+turnRows+` WHERE `+ofTurns, r.def.Room, rt, sqldb.JSON(part), rt+r.def.ClaimWindow.Milliseconds()); err != nil {
			return err
		}
	}
	return nil
}

// turn is a turn for {rows $3: subject text, position bigint, quantity integer} and {subjects}.
type turn struct {
	Subject  string `json:"subject"`
	Position int64  `json:"position"`
	Quantity int64  `json:"quantity"`
}
