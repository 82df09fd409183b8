package waitingroom

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/tidegate/tidegate/waitingroom/internal/sqlstore"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// Store keeps rooms and places. Make it with Postgres, SQLite or package memory; it is safe for concurrent use.
type Store = store.Store

// Postgres returns a store in Postgres 13 or later, in the tables that package migrations creates, behind pgx's driver with its description
// cache, which is on by default. The caller closes the database.
func Postgres(db *sql.DB) Store { return sqlstore.Postgres(db) }

// SQLite returns a store in the same tables in a SQLite database of this process, whose transactions lock it at their start. The writers
// of the process use one lock, such as that of the store of orders. The caller closes the database.
func SQLite(db *sql.DB, writing sync.Locker) Store { return sqlstore.SQLite(db, writing) }

// roomOf returns the room of a row.
func roomOf(row *store.Room) *room {
	t := &row.Terms
	r := &room{saved: row.Saved, def: Definition{
		Room: t.Room, Sale: t.Sale, Item: t.Item, Mode: Mode(t.Mode), GatherAt: time.UnixMilli(t.GatherAt).UTC(),
		StartsAt: time.UnixMilli(t.StartsAt).UTC(),
		Capacity: t.Capacity, RatePerMin: t.RatePerMin, ClaimWindow: time.Duration(t.ClaimMS) * time.Millisecond,
		PassLifetime: time.Duration(t.PassMS) * time.Millisecond, Bound: Bound(t.Bound), RequiresUser: t.RequiresUser, Captcha: t.Captcha,
		Beacon: t.Beacon,
		Page:   Page(t.Page),
	}}
	if len(r.saved.Lanes) > 1 {
		for _, l := range r.saved.Lanes {
			r.def.Lanes = append(r.def.Lanes, Lane{l.Name, l.Share, l.Tier})
		}
	}
	return r
}

// row returns the row of a room.
func (r *room) row() *store.Room {
	d := &r.def
	return &store.Room{Saved: r.saved, Terms: store.Terms{
		Room: d.Room, Sale: d.Sale, Item: d.Item, Mode: string(d.Mode), GatherAt: d.GatherAt.UnixMilli(), StartsAt: d.StartsAt.UnixMilli(),
		Capacity: d.Capacity, RatePerMin: d.RatePerMin, ClaimMS: d.ClaimWindow.Milliseconds(), PassMS: d.PassLifetime.Milliseconds(),
		Bound: string(d.Bound), RequiresUser: d.RequiresUser, Captcha: d.Captcha, Beacon: d.Beacon, Page: store.Page(d.Page),
	}}
}

// locked calls alter with a room while its row is locked, and stores the result unless alter returns an error. It reads the end of the
// queue too, which may grow meanwhile.
func (s *Service) locked(ctx context.Context, name string, alter func(tx store.Tx, r *room) error) (changed room, err error) {
	err = s.store.InTx(ctx, func(tx store.Tx) error {
		r, err := lock(ctx, tx, name, 0)
		if err != nil {
			return err
		}
		if err := alter(tx, r); err != nil {
			return err
		}
		changed = *r
		return tx.Write(ctx, r.row())
	})
	return changed, err
}

// lock locks a room's row and reads the room, unless its last tick is younger than idle ms. It returns ErrUnknownRoom if there is none.
func lock(ctx context.Context, tx store.Tx, name string, idle int64) (*room, error) {
	if !ValidName(name) {
		return nil, ErrUnknownRoom
	}
	row, err := tx.Lock(ctx, name, idle)
	if err != nil {
		return nil, err
	}
	r := roomOf(row)
	r.sinceTick = r.saved.Now - r.saved.TickedAt
	r.skipOutage()
	return r, nil
}

// cursors returns, by lane, how many positions have had their turn, plus 1; 0 before the draw.
func (r *room) cursors() map[string]int64 {
	seen := make(map[string]int64)
	if r.ordered() {
		for _, l := range r.saved.Lanes {
			seen[l.Name] = l.Served + 1
		}
	}
	return seen
}
