package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// readTails reads what the row of the tail holds of the lanes.
func readTails(s *store.Saved, room, text string) error {
	var tails []store.Tail
	if err := json.Unmarshal([]byte(text), &tails); err != nil {
		return err
	}
	return s.SetTails(room, tails)
}

const roomColumns = `room, sale, item, mode, gather_at, starts_at, capacity, rate_per_min, claim_ms, pass_ms, bound, requires_user, captcha,
	message, ended, held, stalled, stopped_at, stopped_ms, ticked_at, credit, extra, lanes, free, promised, secret, salt, commitment, root, drawn, drawn_at, brake, commit_lag_ms, ended_at,
	beacon, beacon_round, beacon_signature, listed_at, sale_state, page, {now ms}`

func scanRoom(rows sqldb.Row, r *store.Room, more ...any) error {
	var lanes, page string
	t, s := &r.Terms, &r.Saved
	if err := rows.Scan(append([]any{
		&t.Room, &t.Sale, &t.Item, &t.Mode, &t.GatherAt, &t.StartsAt, &t.Capacity, &t.RatePerMin, &t.ClaimMS, &t.PassMS, &t.Bound,
		&t.RequiresUser, &t.Captcha,
		&s.Message, &s.Ended, &s.Held, &s.Stalled, &s.StoppedAt, &s.StoppedMS, &s.TickedAt, &s.Credit, &s.Extra, &lanes, &s.Free, &s.Promised,
		&s.Secret, &s.Salt, &s.Commit, &s.Root, &s.NDrawn, &s.DrawnAt, &s.Brake, &s.LagMS, &s.EndedAt,
		&t.Beacon, &s.Beacon.Round, &s.Beacon.Signature, &s.Beacon.ListedMS, &s.Sale, &page, &s.Now,
	}, more...)...); err != nil {
		return err
	}
	return errors.Join(json.Unmarshal([]byte(lanes), &s.Lanes), json.Unmarshal([]byte(page), &t.Page))
}

// Versions returns the versions of all rooms.
func (c Conn) Versions(ctx context.Context) (all []store.Version, err error) {
	err = c.each(ctx, `SELECT r.room, {version}, {now ms} FROM waiting_rooms r JOIN waiting_tails t ON t.room = r.room`,
		func(rows sqldb.Row) error {
			var v store.Version
			err := rows.Scan(&v.Room, &v.Version, &v.Now)
			all = append(all, v)
			return err
		})
	return all, err
}

// ofRooms qualifies those of roomColumns that the tail has too.
var ofRooms = strings.NewReplacer("room,", "r.room,", "lanes,", "r.lanes,")

// lastActive is in the order of an index, so that it reads one place of each room.
const lastActive = `coalesce((SELECT p.active_rt FROM waiting_places p WHERE p.room = r.room AND p.active_rt > 0 ORDER BY p.active_rt DESC LIMIT 1), 0)`

// Rooms returns rooms by name: those of some names, or without names all.
func (c Conn) Rooms(ctx context.Context, names ...string) (all []store.Room, err error) {
	query, args := `SELECT `+ofRooms.Replace(roomColumns)+`, joined, gathered, most, t.lanes, `+lastActive+`
		FROM waiting_rooms r JOIN waiting_tails t ON t.room = r.room`, []any(nil)
	if len(names) > 0 {
		query, args = query+` WHERE r.room {in $1}`, []any{names}
	}
	err = c.replanned().each(ctx, query+` ORDER BY r.room`, func(rows sqldb.Row) error {
		var r store.Room
		var tails string
		err := scanRoom(rows, &r, &r.Saved.Joined, &r.Saved.Gathered, &r.Saved.MostQuantity, &tails, &r.Saved.LastActive)
		if err == nil {
			err = readTails(&r.Saved, r.Terms.Room, tails)
		}
		all = append(all, r)
		return err
	}, args...)
	return all, err
}

// Cursors returns mode, start, draw and lanes of a room.
func (c Conn) Cursors(ctx context.Context, name string) (r store.Room, err error) {
	err = c.each(ctx, `SELECT mode, starts_at, root, drawn_at, lanes FROM waiting_rooms WHERE room = $1`, func(rows sqldb.Row) error {
		var lanes string
		if err := rows.Scan(&r.Terms.Mode, &r.Terms.StartsAt, &r.Saved.Root, &r.Saved.DrawnAt, &lanes); err != nil {
			return err
		}
		return json.Unmarshal([]byte(lanes), &r.Saved.Lanes)
	}, name)
	return r, err
}

// Insert stores a new room; false if there is one of that name.
func (c Conn) Insert(ctx context.Context, r *store.Room) (bool, error) {
	s := &r.Saved
	n, err := c.exec(ctx, `INSERT INTO waiting_rooms (room, sale, item, mode, gather_at, starts_at, capacity, rate_per_min, claim_ms, pass_ms, bound,
			requires_user, captcha, beacon, secret, salt, commitment, lanes, page)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19) ON CONFLICT (room) DO NOTHING`,
		append(args(&r.Terms), s.Secret, s.Salt, s.Commit, sqldb.JSON(s.Lanes), sqldb.JSON(r.Terms.Page))...)
	if err != nil || n == 0 {
		return false, err
	}
	_, err = c.exec(ctx, `INSERT INTO waiting_tails (room, lanes) VALUES ($1, $2)`, r.Terms.Room, sqldb.JSON(store.TailsOf(s.Lanes)))
	return true, err
}

func args(t *store.Terms) []any {
	return []any{
		t.Room, t.Sale, t.Item, t.Mode, t.GatherAt, t.StartsAt, t.Capacity, t.RatePerMin, t.ClaimMS, t.PassMS, t.Bound,
		boolToInt(t.RequiresUser), boolToInt(t.Captcha),
		t.Beacon,
	}
}

// Lock locks a room's row and reads the room, unless its last tick is younger than idle ms. It returns ErrUnknownRoom if there is none.
func (c Conn) Lock(ctx context.Context, name string, idle int64) (*store.Room, error) {
	// UPDATE locks the row; SQLite has no SELECT … FOR UPDATE.
	var r *store.Room
	if err := c.each(ctx, `UPDATE waiting_rooms SET room = room WHERE room = $1 AND ($2 = 0 OR ticked_at <= {now ms} - $2 OR ticked_at > {now ms}) RETURNING `+roomColumns,
		func(rows sqldb.Row) error {
			r = &store.Room{}
			return scanRoom(rows, r)
		}, name, idle); err != nil {
		return nil, err
	}
	if r == nil {
		return nil, store.UnknownRoom(name)
	}
	return r, c.readTail(ctx, name, &r.Saved, `SELECT joined, gathered, most, lanes FROM waiting_tails WHERE room = $1`)
}

// LockTail waits for joins that are under way and keeps others waiting, after Lock.
func (c Conn) LockTail(ctx context.Context, room string, s *store.Saved) error {
	return c.readTail(ctx, room, s, `UPDATE waiting_tails SET room = room WHERE room = $1 RETURNING joined, gathered, most, lanes`)
}

func (c Conn) readTail(ctx context.Context, room string, s *store.Saved, query string) error {
	return c.each(ctx, query, func(rows sqldb.Row) error {
		var tails string
		if err := rows.Scan(&s.Joined, &s.Gathered, &s.MostQuantity, &tails); err != nil {
			return err
		}
		return readTails(s, room, tails)
	}, room)
}

// WriteTail stores the lanes of a locked tail.
func (c Conn) WriteTail(ctx context.Context, room string, lanes []store.Lane) error {
	_, err := c.exec(ctx, `UPDATE waiting_tails SET lanes = $2 WHERE room = $1`, room, sqldb.JSON(store.TailsOf(lanes)))
	return err
}

// Write stores what changes in a locked room.
func (c Conn) Write(ctx context.Context, r *store.Room) error {
	s := &r.Saved
	_, err := c.exec(ctx, `UPDATE waiting_rooms SET sale = $2, item = $3, mode = $4, gather_at = $5, starts_at = $6, capacity = $7, rate_per_min = $8,
			claim_ms = $9, pass_ms = $10, bound = $11, requires_user = $12, captcha = $13, beacon = $14, message = $15, ended = $16, held = $17, stalled = $18,
			stopped_at = $19, stopped_ms = $20, ticked_at = $21, credit = $22, extra = $23, lanes = $24, free = $25, promised = $26, root = $27,
			drawn = $28, drawn_at = $29, brake = $30, commit_lag_ms = $31, ended_at = $32, beacon_round = $33, beacon_signature = $34, listed_at = $35, sale_state = $36, page = $37
		WHERE room = $1`, append(args(&r.Terms), s.Message, s.Ended, boolToInt(s.Held), boolToInt(s.Stalled), s.StoppedAt,
		s.StoppedMS, s.TickedAt, s.Credit, s.Extra, sqldb.JSON(s.Lanes), s.Free, s.Promised, s.Root, s.NDrawn, s.DrawnAt, s.Brake, s.LagMS,
		s.EndedAt,
		s.Beacon.Round, s.Beacon.Signature, s.Beacon.ListedMS, string(s.Sale), sqldb.JSON(r.Terms.Page))...)
	return err
}

// Closed returns the rooms that an operator has closed and that belong to a sale: their names, sales and items.
func (c Conn) Closed(ctx context.Context) ([]store.Room, error) {
	return c.named(ctx, `ended = 'closed' AND sale <> '' AND sale_state <> 'ended'`)
}

// Old returns the rooms that ended, and had their last tick, more than a number of ms ago: their names, sales and items.
func (c Conn) Old(ctx context.Context, ms int64) ([]store.Room, error) {
	return c.named(ctx, `ended <> '' AND secret <> '' AND ended_at <= {now ms} - $1 AND ticked_at <= {now ms} - $1 AND starts_at <= {now ms} - $1`, ms)
}

func (c Conn) named(ctx context.Context, where string, args ...any) (all []store.Room, err error) {
	err = c.each(ctx, `SELECT room, sale, item FROM waiting_rooms WHERE `+where, func(rows sqldb.Row) error {
		var r store.Room
		err := rows.Scan(&r.Terms.Room, &r.Terms.Sale, &r.Terms.Item)
		all = append(all, r)
		return err
	}, args...)
	return all, err
}

// Shrink deletes up to most of the places of an old room, of which more may be left, or if it has none all but its name; lane is
// then its only one.
func (c Conn) Shrink(ctx context.Context, room string, most int, lane store.Lane) (more, deleted bool, err error) {
	n, err := c.exec(ctx, `UPDATE waiting_rooms SET room = room WHERE room = $1 AND secret <> ''`, room)
	if err != nil || n == 0 { // another process has deleted it
		return false, false, err
	}
	if n, err = c.replanned().exec(ctx, `DELETE FROM waiting_places WHERE room = $1 AND seq IN
		(SELECT seq FROM waiting_places WHERE room = $1 ORDER BY seq LIMIT $2)`, room, most); err != nil || n > 0 {
		return true, false, err
	}
	lanes := []store.Lane{lane}
	for _, statement := range []struct {
		text string
		args []any
	}{
		{`DELETE FROM waiting_acts WHERE room = $1`, nil},
		{`UPDATE waiting_tails SET joined = 0, gathered = 0, most = 1, lanes = $2 WHERE room = $1`, []any{sqldb.JSON(store.TailsOf(lanes))}},
		{
			`UPDATE waiting_rooms SET sale = '', item = '', ended = 'closed', message = '', lanes = $2, free = 0, promised = 0, root = '', drawn = 0, drawn_at = 0,
			secret = '', sale_state = '', beacon = '', beacon_round = 0, beacon_signature = '', listed_at = 0 WHERE room = $1`,
			[]any{sqldb.JSON(lanes)},
		},
	} {
		if _, err := c.exec(ctx, statement.text, append([]any{room}, statement.args...)...); err != nil {
			return false, false, err
		}
	}
	return false, true, nil
}
