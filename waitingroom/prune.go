package waitingroom

import (
	"context"
	"log/slog"
	"time"

	"github.com/tidegate/tidegate/internal/errsummary"
	"github.com/tidegate/tidegate/internal/sqldb"
)

const (
	pruneEvery = time.Hour
	pruneBatch = 5_000 // places in a transaction
)

// prune deletes the rooms that ended longer ago than Options.KeepAfterEnd. Every process does it; repeating is harmless. The room goes last, so
// that a deletion that was interrupted goes on. Its name stays, as that of a closed room without places: a gateway that still asks for passes
// of the room lets everybody pass, as it did after the room was closed, and no other room of the name meets the tokens and receipts of this one.
func (s *Service) prune(ctx context.Context) error {
	var old []room
	err := each(ctx, s.store.db.Conn, `SELECT room, sale, item FROM waiting_rooms
		WHERE ended <> '' AND secret <> '' AND ended_at <= {now ms} - $1 AND ticked_at <= {now ms} - $1 AND starts_at <= {now ms} - $1`, func(rows sqldb.Row) error {
		var r room
		err := rows.Scan(&r.def.Room, &r.def.Sale, &r.def.Item)
		old = append(old, r)
		return err
	}, s.opts.KeepAfterEnd.Milliseconds())
	if err != nil {
		return err
	}
	for i := range old {
		err = errsummary.Join(err, s.pruneRoom(ctx, &old[i]))
	}
	return err
}

func (s *Service) pruneRoom(ctx context.Context, r *room) error {
	if err := s.unguard(ctx, r); err != nil { // otherwise its item could never be ordered again
		return err
	}
	for {
		if more, err := s.shrink(ctx, r); err != nil || !more {
			return err
		}
	}
}

// shrink deletes a batch of the places of an old room, or all but the name of the room if it has none. It returns false when that is done.
func (s *Service) shrink(ctx context.Context, old *room) (more bool, err error) {
	deleted := false
	err = s.store.inTx(ctx, func(tx sqldb.Conn) error {
		more, deleted = false, false
		n, err := exec(ctx, tx, `UPDATE waiting_rooms SET room = room WHERE room = $1 AND secret <> ''`, old.def.Room)
		if err != nil || n == 0 { // another process has deleted it
			return err
		}
		if n, err = exec(ctx, tx, `DELETE FROM waiting_places WHERE room = $1 AND seq IN
			(SELECT seq FROM waiting_places WHERE room = $1 ORDER BY seq LIMIT $2)`, old.def.Room, pruneBatch); err != nil {
			return err
		}
		if more = n > 0; more {
			return nil
		}
		lanes := newLanes(&Definition{})
		for _, statement := range []struct {
			text string
			args []any
		}{
			{`DELETE FROM waiting_acts WHERE room = $1`, nil},
			{`UPDATE waiting_tails SET joined = 0, gathered = 0, most = 1, lanes = $2 WHERE room = $1`, []any{sqldb.JSON(tailsOf(lanes))}},
			{`UPDATE waiting_rooms SET sale = '', item = '', ended = 'closed', message = '', lanes = $2, free = 0, promised = 0, root = '', drawn = 0, drawn_at = 0, secret = '', sale_state = '', beacon = '', beacon_round = 0, beacon_signature = '', listed_at = 0
				WHERE room = $1`, []any{sqldb.JSON(lanes)}},
		} {
			if _, err := exec(ctx, tx, statement.text, append([]any{old.def.Room}, statement.args...)...); err != nil {
				return err
			}
		}
		deleted = true
		return nil
	})
	if err == nil && deleted {
		s.opts.Logger.InfoContext(ctx, "an old waiting room is deleted", slog.String("room", old.def.Room))
	}
	return more, err
}

// deleted reports whether only the name of a room is left.
func (r *room) deleted() bool { return r.secret == "" }
