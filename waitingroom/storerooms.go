package waitingroom

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/sqldb"
)

const roomColumns = `room, sale, item, mode, gather_at, starts_at, capacity, rate_per_min, claim_ms, pass_ms, bound, requires_user, captcha,
	message, ended, held, stalled, stopped_at, stopped_ms, ticked_at, credit, extra, lanes, free, promised, secret, salt, commitment, root, drawn, drawn_at, brake, commit_lag_ms, ended_at,
	beacon, beacon_round, beacon_signature, listed_at, sale_state, page, {now ms}`

func scanRoom(rows sqldb.Row, r *room, more ...any) error {
	var gather, starts, claim, pass int64
	var lanes, page string
	err := rows.Scan(append([]any{
		&r.def.Room, &r.def.Sale, &r.def.Item, &r.def.Mode, &gather, &starts, &r.def.Capacity, &r.def.RatePerMin, &claim, &pass, &r.def.Bound, &r.def.RequiresUser, &r.def.Captcha,
		&r.message, &r.ended, &r.held, &r.stalled, &r.stoppedAt, &r.stoppedMS, &r.tickedAt, &r.credit, &r.extra, &lanes, &r.free, &r.promised,
		&r.secret, &r.salt, &r.commit, &r.root, &r.nDrawn, &r.drawnAt, &r.brake, &r.lagMS, &r.endedAt,
		&r.def.Beacon, &r.beacon.Round, &r.beacon.Signature, &r.beacon.ListedMS, &r.sale, &page, &r.now,
	}, more...)...)
	if err == nil {
		err = r.readLanes(lanes)
	}
	if err == nil {
		err = json.Unmarshal([]byte(page), &r.def.Page)
	}
	r.def.GatherAt, r.def.StartsAt = time.UnixMilli(gather).UTC(), time.UnixMilli(starts).UTC()
	r.def.ClaimWindow, r.def.PassLifetime = time.Duration(claim)*time.Millisecond, time.Duration(pass)*time.Millisecond
	return err
}

// rooms returns all rooms.
func (s *Store) rooms(ctx context.Context) (all []room, err error) {
	err = each(ctx, s.db.Conn, `SELECT `+strings.NewReplacer("room,", "r.room,", "lanes,", "r.lanes,").Replace(roomColumns)+`, joined, gathered, most, t.lanes
		FROM waiting_rooms r JOIN waiting_tails t ON t.room = r.room ORDER BY r.room`, func(rows sqldb.Row) error {
		var r room
		var tails string
		err := scanRoom(rows, &r, &r.joined, &r.gathered, &r.mostQuantity, &tails)
		if err == nil {
			err = r.readTails(tails)
		}
		all = append(all, r)
		return err
	})
	return all, err
}

// cursors returns, by lane, how many positions of a room have had their turn, plus 1; 0 before the draw.
func (s *Store) cursors(ctx context.Context, name string) (map[string]int64, error) {
	seen := make(map[string]int64)
	err := each(ctx, s.db.Conn, `SELECT mode, drawn_at, lanes FROM waiting_rooms WHERE room = $1`, func(rows sqldb.Row) error {
		var r room
		var lanes string
		if err := rows.Scan(&r.def.Mode, &r.drawnAt, &lanes); err != nil {
			return err
		}
		err := r.readLanes(lanes)
		for i := range r.lanes {
			if r.ordered() {
				seen[r.lanes[i].Name] = r.lanes[i].Served + 1
			}
		}
		return err
	}, name)
	return seen, err
}

// insert stores a new room; false if there is one of that name.
func (s *Store) insert(ctx context.Context, tx sqldb.Conn, d *Definition, secret, salt, commit string) (bool, error) {
	lanes := newLanes(d)
	n, err := exec(ctx, tx, `INSERT INTO waiting_rooms (room, sale, item, mode, gather_at, starts_at, capacity, rate_per_min, claim_ms, pass_ms, bound,
			requires_user, captcha, beacon, secret, salt, commitment, lanes, page)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19) ON CONFLICT (room) DO NOTHING`,
		append(definitionArgs(d), secret, salt, commit, sqldb.JSON(lanes), sqldb.JSON(d.Page))...)
	if err != nil || n == 0 {
		return false, err
	}
	_, err = exec(ctx, tx, `INSERT INTO waiting_tails (room, lanes) VALUES ($1, $2)`, d.Room, sqldb.JSON(tailsOf(lanes)))
	return true, err
}

func definitionArgs(d *Definition) []any {
	return []any{
		d.Room, d.Sale, d.Item, string(d.Mode), d.GatherAt.UnixMilli(), d.StartsAt.UnixMilli(), d.Capacity, d.RatePerMin, d.ClaimWindow.Milliseconds(),
		d.PassLifetime.Milliseconds(), string(d.Bound), boolToInt(d.RequiresUser), boolToInt(d.Captcha), d.Beacon,
	}
}

// change calls alter with a room while its row is locked, and stores the result unless alter returns an error. It reads the end of the
// queue too, which may grow meanwhile.
func (s *Store) change(ctx context.Context, name string, alter func(tx sqldb.Conn, r *room) error) (changed room, err error) {
	err = s.inTx(ctx, func(tx sqldb.Conn) error {
		r, err := s.lock(ctx, tx, name, 0)
		if err != nil {
			return err
		}
		if err := alter(tx, r); err != nil {
			return err
		}
		changed = *r
		return s.write(ctx, tx, r)
	})
	return changed, err
}

// lock locks a room's row and reads the room, unless its last tick is younger than idle ms. It returns ErrUnknownRoom if there is none.
func (s *Store) lock(ctx context.Context, tx sqldb.Conn, name string, idle int64) (*room, error) {
	if !ValidName(name) {
		return nil, ErrUnknownRoom
	}
	// UPDATE locks the row; SQLite has no SELECT … FOR UPDATE.
	var r *room
	if err := each(ctx, tx, `UPDATE waiting_rooms SET room = room WHERE room = $1 AND ($2 = 0 OR ticked_at <= {now ms} - $2 OR ticked_at > {now ms}) RETURNING `+roomColumns,
		func(rows sqldb.Row) error {
			r = &room{}
			return scanRoom(rows, r)
		}, name, idle); err != nil {
		return nil, err
	}
	if r == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnknownRoom, name)
	}
	r.sinceTick = r.now - r.tickedAt
	r.skipOutage()
	return r, s.readTail(ctx, tx, r, `SELECT joined, gathered, most, lanes FROM waiting_tails WHERE room = $1`)
}

// lockTail waits for joins that are under way and keeps others waiting, after lock.
func (s *Store) lockTail(ctx context.Context, tx sqldb.Conn, r *room) error {
	return s.readTail(ctx, tx, r, `UPDATE waiting_tails SET room = room WHERE room = $1 RETURNING joined, gathered, most, lanes`)
}

func (s *Store) readTail(ctx context.Context, tx sqldb.Conn, r *room, query string) error {
	return each(ctx, tx, query, func(rows sqldb.Row) error {
		var lanes string
		if err := rows.Scan(&r.joined, &r.gathered, &r.mostQuantity, &lanes); err != nil {
			return err
		}
		return r.readTails(lanes)
	}, r.def.Room)
}

// writeTail stores the lanes of a locked tail.
func (s *Store) writeTail(ctx context.Context, tx sqldb.Conn, r *room) error {
	_, err := exec(ctx, tx, `UPDATE waiting_tails SET lanes = $2 WHERE room = $1`, r.def.Room, sqldb.JSON(tailsOf(r.lanes)))
	return err
}

// write stores what changes in a locked room.
func (s *Store) write(ctx context.Context, tx sqldb.Conn, r *room) error {
	_, err := exec(ctx, tx, `UPDATE waiting_rooms SET sale = $2, item = $3, mode = $4, gather_at = $5, starts_at = $6, capacity = $7, rate_per_min = $8,
			claim_ms = $9, pass_ms = $10, bound = $11, requires_user = $12, captcha = $13, beacon = $14, message = $15, ended = $16, held = $17, stalled = $18,
			stopped_at = $19, stopped_ms = $20, ticked_at = $21, credit = $22, extra = $23, lanes = $24, free = $25, promised = $26, root = $27,
			drawn = $28, drawn_at = $29, brake = $30, commit_lag_ms = $31, ended_at = $32, beacon_round = $33, beacon_signature = $34, listed_at = $35, sale_state = $36, page = $37
		WHERE room = $1`, append(definitionArgs(&r.def), r.message, string(r.ended), boolToInt(r.held), boolToInt(r.stalled), r.stoppedAt,
		r.stoppedMS, r.tickedAt, r.credit, r.extra, sqldb.JSON(r.lanes), r.free, r.promised, r.root, r.nDrawn, r.drawnAt, r.brake, r.lagMS, r.endedAt,
		r.beacon.Round, r.beacon.Signature, r.beacon.ListedMS, string(r.sale), sqldb.JSON(r.def.Page))...)
	return err
}
