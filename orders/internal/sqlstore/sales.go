package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	_ "embed"
	"errors"
	"time"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// Recent is the condition for sales that ended after storage.LongAgo, its first argument.
const Recent = `ends_at > $1`

// Differing lists the sales each time. A store with a network in between compares fingerprints first.
func (s *Store) Differing(ctx context.Context, known *storage.KnownSales) ([]string, error) {
	stored, err := all(ctx, s.db.Conn, `SELECT sale, revision, epoch_token FROM sales WHERE `+Recent,
		func(row sqldb.Row) (v storage.SaleVersion, err error) {
			err = row.Scan(&v.Sale, &v.Revision, &v.EpochToken)
			return v, err
		}, storage.LongAgo(time.Now()))
	if err != nil {
		return nil, s.wrap("sales", err)
	}
	return known.Differing(stored), nil
}

// Sales returns those of the named sales that ended less than 400 days ago, by name.
func (s *Store) Sales(ctx context.Context, names []string) ([]orders.Sale, error) {
	sales, err := readSales(ctx, s.db.Conn, Recent+` AND sale {in $2}`, storage.LongAgo(time.Now()), names)
	return sales, s.wrap("sales", err)
}

// readSales reads the sales for which condition is true, by name.
func readSales(ctx context.Context, c sqldb.Conn, condition string, args ...any) (sales []orders.Sale, err error) {
	err = c.Each(ctx, `
		SELECT sale, switch, starts_at, ends_at, requires_user, hold_ms, salt, epoch, epoch_token, epoch_floor, revision,
		       item, number, stock, quota_per_buyer, quota_ever, in_flight_max, final, room
		FROM sales s JOIN items i USING (sale)
		WHERE `+condition+` ORDER BY sale, number`, func(row sqldb.Row) error {
		var (
			s    orders.Sale
			it   orders.Item
			hold int64
		)
		if err := row.Scan(&s.ID, &s.Switch, (*sqldb.Time)(&s.StartsAt), (*sqldb.Time)(&s.EndsAt), &s.RequiresUser, &hold, &s.Salt, &s.Epoch,
			&s.EpochToken, &s.EpochFloor, &s.Revision,
			&it.ID, &it.Number, &it.Stock, &it.QuotaPerBuyer, &it.HighestQuota, &it.InFlightMax, &it.Final, &it.Room); err != nil {
			return err
		}
		if n := len(sales); n == 0 || sales[n-1].ID != s.ID {
			s.Hold = time.Duration(hold) * time.Millisecond
			sales = append(sales, s)
		}
		last := &sales[len(sales)-1]
		last.Items = append(last.Items, it)
		return nil
	}, args...)
	return sales, err
}

// PutSale creates the sale as a draft, or amends it.
func (s *Store) PutSale(ctx context.Context, def orders.Sale) (sale orders.Sale, created bool, added []string, err error) {
	salt := make([]byte, 16)
	rand.Read(salt)
	err = s.inTx(ctx, "put sale", func(tx sqldb.Conn) error {
		added = nil
		n, err := tx.Exec(ctx, `
			INSERT INTO sales (sale, starts_at, ends_at, requires_user, hold_ms, salt, revision)
			VALUES ($1, $2, $3, $4, $5, $6, {next revision}) ON CONFLICT DO NOTHING`,
			def.ID, def.StartsAt, def.EndsAt, def.RequiresUser, def.Hold, salt)
		if err != nil {
			return err
		}
		changed := true
		if created = n == 1; !created {
			if _, err := lockSale(ctx, tx, def.ID); err != nil {
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

var (
	//go:embed change_items.sql
	changeItems string
	//go:embed add_items.sql
	addItems string
)

func writeSale(ctx context.Context, tx sqldb.Conn, def orders.Sale, created bool) (added []string, err error) {
	if !created {
		if _, err := tx.Exec(ctx, `
			UPDATE sales SET starts_at = $2, ends_at = $3, requires_user = $4, hold_ms = $5, revision = {next revision} WHERE sale = $1`,
			def.ID, def.StartsAt, def.EndsAt, def.RequiresUser, def.Hold); err != nil {
			return nil, err
		}
	}
	type item struct {
		Place       int    `json:"place"`
		Item        string `json:"item"`
		Stock       int    `json:"stock"`
		Quota       int    `json:"quota_per_buyer"`
		InFlightMax int    `json:"in_flight_max"`
		Final       bool   `json:"final"`
	}
	items := make([]item, len(def.Items))
	for i, it := range def.Items {
		items[i] = item{i, it.ID, it.Stock, it.QuotaPerBuyer, it.InFlightMax, it.Final}
	}
	if _, err := tx.Exec(ctx, changeItems, def.ID, sqldb.JSON(items)); err != nil {
		return nil, err
	}
	return all(ctx, tx, addItems, func(row sqldb.Row) (item string, err error) {
		err = row.Scan(&item)
		return item, err
	}, def.ID, sqldb.JSON(items))
}

// lockSale locks a sale's row, and returns its switch.
func lockSale(ctx context.Context, tx sqldb.Conn, sale string) (at orders.Switch, err error) {
	err = tx.One(ctx, `SELECT switch FROM sales WHERE sale = $1 {lock}`, []any{&at}, sale)
	if errors.Is(err, sql.ErrNoRows) {
		err = orders.ErrUnknownSale
	}
	return at, err
}

// SetSwitch sets the switch. Closed is final.
func (s *Store) SetSwitch(ctx context.Context, sale string, to orders.Switch) error {
	return s.inTx(ctx, "set switch", func(tx sqldb.Conn) error {
		at, err := lockSale(ctx, tx, sale)
		switch {
		case err != nil || at == to:
			return err
		case at == orders.SwitchClosed:
			return storage.SwitchFinal(sale)
		}
		_, err = tx.Exec(ctx, `UPDATE sales SET switch = $2, revision = {next revision} WHERE sale = $1`, sale, to)
		return err
	})
}

// SetRoom sets the waiting room of an item.
func (s *Store) SetRoom(ctx context.Context, sale, item, from, to string) error {
	return s.inTx(ctx, "set room", func(tx sqldb.Conn) error {
		n, err := tx.Exec(ctx, `UPDATE items SET room = $4 WHERE sale = $1 AND item = $2 AND room IN ($3, $4)`, sale, item, from, to)
		if err != nil {
			return err
		}
		if n == 0 {
			var room string
			if err := tx.One(ctx, `SELECT room FROM items WHERE sale = $1 AND item = $2`, []any{&room}, sale, item); err != nil {
				return err
			}
			return storage.OtherRoom(sale, item, room)
		}
		_, err = tx.Exec(ctx, `UPDATE sales SET revision = {next revision} WHERE sale = $1`, sale)
		return err
	})
}

// IDKey reads the key that the migration created.
func (s *Store) IDKey(ctx context.Context) (k orders.IDKey, err error) {
	err = s.db.One(ctx, `SELECT key FROM order_id_key`, []any{&k.Key})
	return k, s.wrap("id key", err)
}
