package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/orders"
)

// nextRevision is read in the transaction that writes it, and there is only one writer.
const nextRevision = `(SELECT coalesce(max(revision), 0) + 1 FROM sales)`

// longAgo returns the time in ms after which a sale must have ended to be read.
func longAgo() int64 { return time.Now().AddDate(0, 0, -400).UnixMilli() }

// Differing lists the sales each time: there is no network between them and the process.
func (s *Store) Differing(ctx context.Context, known *orders.KnownSales) ([]string, error) {
	var stored []orders.SaleVersion
	err := each(ctx, s.db, func(rows *sql.Rows) error {
		var v orders.SaleVersion
		if err := rows.Scan(&v.Sale, &v.Revision, &v.EpochToken); err != nil {
			return err
		}
		stored = append(stored, v)
		return nil
	}, `SELECT sale, revision, epoch_token FROM sales WHERE ends_at > ?`, longAgo())
	if err != nil {
		return nil, wrap("sales", err)
	}
	return known.Differing(stored), nil
}

// Sales returns those of the named sales that ended less than 400 days ago, by name.
func (s *Store) Sales(ctx context.Context, names []string) ([]orders.Sale, error) {
	list, err := json.Marshal(names)
	if err != nil {
		return nil, wrap("sales", err)
	}
	sales, err := readSales(ctx, s.db, `ends_at > ?1 AND sale IN (SELECT value FROM json_each(?2))`, longAgo(), string(list))
	return sales, wrap("sales", err)
}

// readSales reads the sales for which condition is true, by name.
func readSales(ctx context.Context, q querier, condition string, args ...any) ([]orders.Sale, error) {
	var sales []orders.Sale
	err := each(ctx, q, func(rows *sql.Rows) error {
		var (
			s                  orders.Sale
			it                 orders.Item
			starts, ends, hold int64
		)
		if err := rows.Scan(&s.ID, &s.Switch, &starts, &ends, &s.RequiresUser, &hold, &s.Salt, &s.Epoch, &s.EpochToken, &s.EpochFloor, &s.Revision,
			&it.ID, &it.Number, &it.Stock, &it.QuotaPerBuyer, &it.HighestQuota, &it.InFlightMax, &it.Final, &it.Room); err != nil {
			return err
		}
		if n := len(sales); n == 0 || sales[n-1].ID != s.ID {
			s.StartsAt, s.EndsAt = time.UnixMilli(starts).UTC(), time.UnixMilli(ends).UTC()
			s.Hold = time.Duration(hold) * time.Millisecond
			sales = append(sales, s)
		}
		last := &sales[len(sales)-1]
		last.Items = append(last.Items, it)
		return nil
	}, `
		SELECT sale, switch, starts_at, ends_at, requires_user, hold_ms, salt, epoch, epoch_token, epoch_floor, revision,
		       item, number, stock, quota_per_buyer, quota_ever, in_flight_max, final, room
		FROM sales s JOIN items i USING (sale)
		WHERE `+condition+` ORDER BY sale, number`, args...)
	return sales, err
}

// PutSale creates the sale as a draft, or amends it.
func (s *Store) PutSale(ctx context.Context, def orders.Sale) (sale orders.Sale, created bool, added []string, err error) {
	salt := make([]byte, 16)
	rand.Read(salt)
	err = s.inTx(ctx, "put sale", func(tx *sql.Tx) error {
		before, err := readSales(ctx, tx, `sale = ?1`, def.ID)
		if err != nil {
			return err
		}
		created = len(before) == 0
		changed := true
		if !created {
			if _, changed, err = before[0].Amend(def); err != nil {
				return err
			}
		}
		if changed {
			if added, err = writeSale(ctx, tx, def, salt); err != nil {
				return err
			}
		}
		after, err := readSales(ctx, tx, `sale = ?1`, def.ID)
		if err != nil {
			return err
		}
		sale = after[0]
		return nil
	})
	return sale, created, added, err
}

func writeSale(ctx context.Context, tx *sql.Tx, def orders.Sale, salt []byte) (added []string, err error) {
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO sales (sale, starts_at, ends_at, requires_user, hold_ms, salt, revision)
		VALUES (?, ?, ?, ?, ?, ?, `+nextRevision+`)
		ON CONFLICT (sale) DO UPDATE SET starts_at = excluded.starts_at, ends_at = excluded.ends_at,
			requires_user = excluded.requires_user, hold_ms = excluded.hold_ms, revision = excluded.revision`,
		def.ID, def.StartsAt.UnixMilli(), def.EndsAt.UnixMilli(), def.RequiresUser, def.Hold.Milliseconds(), salt); err != nil {
		return nil, err
	}
	list, err := json.Marshal(def.Items)
	if err != nil {
		return nil, err
	}
	// Otherwise the planner may read the whole list for each item.
	const defined = `WITH d AS MATERIALIZED (SELECT key AS place, value ->> 'ID' AS item, value ->> 'Stock' AS stock,
		value ->> 'QuotaPerBuyer' AS quota_per_buyer, value ->> 'InFlightMax' AS in_flight_max, value ->> 'Final' AS final FROM json_each(?2)) `
	if _, err := tx.ExecContext(ctx, defined+`
		UPDATE items SET stock = d.stock, quota_per_buyer = d.quota_per_buyer, quota_ever = max(quota_ever, d.quota_per_buyer),
			in_flight_max = d.in_flight_max, final = d.final
		FROM d WHERE items.sale = ?1 AND items.item = d.item`, def.ID, string(list)); err != nil {
		return nil, err
	}
	err = each(ctx, tx, func(rows *sql.Rows) error {
		var item string
		err := rows.Scan(&item)
		added = append(added, item)
		return err
	}, defined+`
		INSERT INTO items (sale, item, stock, quota_per_buyer, quota_ever, in_flight_max, final)
		SELECT ?1, item, stock, quota_per_buyer, quota_per_buyer, in_flight_max, final FROM d
		WHERE NOT EXISTS (SELECT 1 FROM items WHERE items.sale = ?1 AND items.item = d.item) ORDER BY place
		RETURNING item`, def.ID, string(list))
	return added, err
}

// SetSwitch sets the switch. Closed is final.
func (s *Store) SetSwitch(ctx context.Context, sale string, to orders.Switch) error {
	return s.inTx(ctx, "set switch", func(tx *sql.Tx) error {
		var at orders.Switch
		err := tx.QueryRowContext(ctx, `SELECT switch FROM sales WHERE sale = ?`, sale).Scan(&at)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return orders.ErrUnknownSale
		case err != nil:
			return err
		case at == to:
			return nil
		case at == orders.SwitchClosed:
			return failure.New(orders.ErrConflict, "sale %s is closed for good", sale)
		}
		_, err = tx.ExecContext(ctx, `UPDATE sales SET switch = ?, revision = `+nextRevision+` WHERE sale = ?`, to, sale)
		return err
	})
}

// SetRoom sets the waiting room of an item.
func (s *Store) SetRoom(ctx context.Context, sale, item, from, to string) error {
	return s.inTx(ctx, "set room", func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE items SET room = ?4 WHERE sale = ?1 AND item = ?2 AND room IN (?3, ?4)`, sale, item, from, to)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil {
			return err
		} else if n == 0 {
			var room string
			if err := tx.QueryRowContext(ctx, `SELECT room FROM items WHERE sale = ? AND item = ?`, sale, item).Scan(&room); err != nil {
				return err
			}
			return failure.New(orders.ErrConflict, "item %s/%s has the waiting room %s", sale, item, room)
		}
		_, err = tx.ExecContext(ctx, `UPDATE sales SET revision = `+nextRevision+` WHERE sale = ?`, sale)
		return err
	})
}

// IDKey reads the key that the migration created.
func (s *Store) IDKey(ctx context.Context) (orders.IDKey, error) {
	var (
		k     orders.IDKey
		until sql.NullInt64
	)
	err := s.db.QueryRowContext(ctx, `SELECT key, plain_until FROM order_id_key`).Scan(&k.Key, &until)
	if until.Valid {
		k.PlainUntil = time.UnixMilli(until.Int64).UTC()
	}
	return k, wrap("id key", err)
}
