package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/orders"
)

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// recent is the condition for sales that ended less than 400 days ago.
const recent = `ends_at > now() - interval '400 days'`

// Differing lists the sales only if their fingerprint is not that of the known ones.
func (s *Store) Differing(ctx context.Context, known *orders.KnownSales) ([]string, error) {
	var (
		fingerprint string
		standby     bool
	)
	err := s.pool.QueryRow(ctx, `
		SELECT encode(sha256(convert_to(coalesce(string_agg(sale || ' ' || revision || ' ' || epoch_token, ',' ORDER BY sale COLLATE "C"), ''), 'UTF8')), 'hex'),
		       pg_is_in_recovery()
		FROM sales WHERE `+recent).Scan(&fingerprint, &standby)
	if err == nil && standby {
		err = errStandby
	}
	if err != nil || fingerprint == known.Fingerprint {
		return nil, wrap("sales", err)
	}
	rows, err := s.pool.Query(ctx, `SELECT sale, revision, epoch_token FROM sales WHERE `+recent)
	if err != nil {
		return nil, wrap("sales", err)
	}
	stored, err := pgx.CollectRows(rows, pgx.RowToStructByPos[orders.SaleVersion])
	if err != nil {
		return nil, wrap("sales", err)
	}
	return known.Differing(stored), nil
}

// Sales returns those of the named sales that ended less than 400 days ago, by name.
func (s *Store) Sales(ctx context.Context, names []string) ([]orders.Sale, error) {
	sales, err := readSales(ctx, s.pool, recent+` AND sale = ANY($1)`, names)
	return sales, wrap("sales", err)
}

// readSales reads the sales for which condition is true, by name.
func readSales(ctx context.Context, q querier, condition string, args ...any) ([]orders.Sale, error) {
	rows, err := q.Query(ctx, `
		SELECT sale, switch, starts_at, ends_at, requires_user, hold_ms, salt, epoch, epoch_token, epoch_floor, revision,
		       item, number, stock, quota_per_buyer, quota_ever, in_flight_max, final, room
		FROM sales s JOIN items i USING (sale)
		WHERE `+condition+` ORDER BY sale, number`, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var sales []orders.Sale
	for rows.Next() {
		var (
			s    orders.Sale
			it   orders.Item
			hold int64
		)
		if err := rows.Scan(&s.ID, &s.Switch, &s.StartsAt, &s.EndsAt, &s.RequiresUser, &hold, &s.Salt, &s.Epoch, &s.EpochToken, &s.EpochFloor, &s.Revision,
			&it.ID, &it.Number, &it.Stock, &it.QuotaPerBuyer, &it.HighestQuota, &it.InFlightMax, &it.Final, &it.Room); err != nil {
			return nil, err
		}
		if n := len(sales); n == 0 || sales[n-1].ID != s.ID {
			s.StartsAt, s.EndsAt = s.StartsAt.UTC(), s.EndsAt.UTC()
			s.Hold = time.Duration(hold) * time.Millisecond
			sales = append(sales, s)
		}
		last := &sales[len(sales)-1]
		last.Items = append(last.Items, it)
	}
	return sales, rows.Err()
}

// PutSale creates the sale as a draft, or amends it.
func (s *Store) PutSale(ctx context.Context, def orders.Sale) (sale orders.Sale, created bool, added []string, err error) {
	salt := make([]byte, 16)
	rand.Read(salt)
	err = s.inTx(ctx, "put sale", func(tx pgx.Tx) error {
		added = nil
		tag, err := tx.Exec(ctx, `
			INSERT INTO sales (sale, starts_at, ends_at, requires_user, hold_ms, salt)
			VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`,
			def.ID, def.StartsAt, def.EndsAt, def.RequiresUser, def.Hold.Milliseconds(), salt)
		if err != nil {
			return err
		}
		changed := true
		if created = tag.RowsAffected() == 1; !created {
			if _, err := tx.Exec(ctx, `SELECT 1 FROM sales WHERE sale = $1 FOR UPDATE`, def.ID); err != nil {
				return err
			}
			before, err := readSales(ctx, tx, `sale = $1`, def.ID)
			if err != nil {
				return err
			}
			if _, changed, err = before[0].Amend(def); err != nil {
				return err
			}
		}
		if changed {
			if added, err = writeSale(ctx, tx, def, created); err != nil {
				return err
			}
		}
		after, err := readSales(ctx, tx, `sale = $1`, def.ID)
		if err != nil {
			return err
		}
		sale = after[0]
		return nil
	})
	return sale, created, added, err
}

func writeSale(ctx context.Context, tx pgx.Tx, def orders.Sale, created bool) (added []string, err error) {
	if !created {
		if _, err := tx.Exec(ctx, `
			UPDATE sales SET starts_at = $2, ends_at = $3, requires_user = $4, hold_ms = $5, revision = nextval('sales_revision')
			WHERE sale = $1`,
			def.ID, def.StartsAt, def.EndsAt, def.RequiresUser, def.Hold.Milliseconds()); err != nil {
			return nil, err
		}
	}
	// One slice a column, as unnest takes them.
	n := len(def.Items)
	items, stocks, quotas, most, final := make([]string, n), make([]int, n), make([]int, n), make([]int, n), make([]bool, n)
	for i, it := range def.Items {
		items[i], stocks[i], quotas[i], most[i], final[i] = it.ID, it.Stock, it.QuotaPerBuyer, it.InFlightMax, it.Final
	}
	const defined = `unnest($2::text[], $3::integer[], $4::integer[], $5::integer[], $6::boolean[])
		WITH ORDINALITY AS d (item, stock, quota_per_buyer, in_flight_max, final, place)`
	if _, err := tx.Exec(ctx, `
		UPDATE items i SET stock = d.stock, quota_per_buyer = d.quota_per_buyer, quota_ever = greatest(quota_ever, d.quota_per_buyer),
			in_flight_max = d.in_flight_max, final = d.final
		FROM `+defined+`
		WHERE i.sale = $1 AND i.item = d.item
			AND (i.stock, i.quota_per_buyer, i.in_flight_max, i.final) <> (d.stock, d.quota_per_buyer, d.in_flight_max, d.final)`,
		def.ID, items, stocks, quotas, most, final); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, `
		INSERT INTO items (sale, item, stock, quota_per_buyer, quota_ever, in_flight_max, final)
		SELECT $1, item, stock, quota_per_buyer, quota_per_buyer, in_flight_max, final FROM `+defined+`
		WHERE NOT EXISTS (SELECT FROM items i WHERE i.sale = $1 AND i.item = d.item) ORDER BY place
		RETURNING item`, // not ON CONFLICT, which would spend a number on each item that is there
		def.ID, items, stocks, quotas, most, final)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// SetSwitch sets the switch. Closed is final.
func (s *Store) SetSwitch(ctx context.Context, sale string, to orders.Switch) error {
	return s.inTx(ctx, "set switch", func(tx pgx.Tx) error {
		var at orders.Switch
		err := tx.QueryRow(ctx, `SELECT switch FROM sales WHERE sale = $1 FOR UPDATE`, sale).Scan(&at)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return orders.ErrUnknownSale
		case err != nil:
			return err
		case at == to:
			return nil
		case at == orders.SwitchClosed:
			return failure.New(orders.ErrConflict, "sale %s is closed for good", sale)
		}
		_, err = tx.Exec(ctx, `UPDATE sales SET switch = $2, revision = nextval('sales_revision') WHERE sale = $1`, sale, to)
		return err
	})
}

// SetRoom sets the waiting room of an item.
func (s *Store) SetRoom(ctx context.Context, sale, item, from, to string) error {
	return s.inTx(ctx, "set room", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE items SET room = $4 WHERE sale = $1 AND item = $2 AND room IN ($3, $4)`, sale, item, from, to)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			var room string
			if err := tx.QueryRow(ctx, `SELECT room FROM items WHERE sale = $1 AND item = $2`, sale, item).Scan(&room); err != nil {
				return err
			}
			return failure.New(orders.ErrConflict, "item %s/%s has the waiting room %s", sale, item, room)
		}
		_, err = tx.Exec(ctx, `UPDATE sales SET revision = nextval('sales_revision') WHERE sale = $1`, sale)
		return err
	})
}

// IDKey reads the key that the migration created.
func (s *Store) IDKey(ctx context.Context) (orders.IDKey, error) {
	var (
		k     orders.IDKey
		until *time.Time
	)
	err := s.pool.QueryRow(ctx, `SELECT key, plain_until FROM order_id_key`).Scan(&k.Key, &until)
	if until != nil {
		k.PlainUntil = until.UTC()
	}
	return k, wrap("id key", err)
}
