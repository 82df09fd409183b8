package postgres

import (
	"context"
	_ "embed"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/sqlstore"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// Capture changes the order only together with the record of the capture.
func (s *Store) Capture(ctx context.Context, id orders.ID, reference string) (orders.Payment, error) {
	p := orders.Payment{Order: id, Reference: reference}
	errRecorded := errors.New("the reference is known")
	err := s.inTx(ctx, "capture", func(tx pgx.Tx) error {
		var err error
		if p.Action, p.Status, err = pay(ctx, tx, id); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `INSERT INTO payments (reference, order_id, action) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
			reference, [16]byte(id), p.Action)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return errRecorded // and undo the change
		}
		_, err = tx.Exec(ctx, `INSERT INTO order_events (order_id, status, action, reference) VALUES ($1, $2, $3, $4)`,
			[16]byte(id), p.Status, p.Action, reference)
		return err
	})
	if !errors.Is(err, errRecorded) {
		return p, err
	}
	p, found, err := sqlstore.Captured(ctx, s.db.Conn, id, reference)
	if err == nil && !found {
		err = pgx.ErrNoRows // another payment of the order stood in the way, or a server took over that lacks this one
	}
	return p, wrap("capture", err)
}

// pay pays the order if it waits for payment, and returns its resulting status.
func pay(ctx context.Context, tx pgx.Tx, id orders.ID) (action orders.Action, status orders.Status, err error) {
	for waits := true; waits; { // an order committed after the first statement is visible to the second
		err = tx.QueryRow(ctx, `
			UPDATE orders SET status = 'paid' WHERE order_id = $1 AND status = 'confirmed' AND pay_before IS NOT NULL
			RETURNING status`, sqldb.Replan, [16]byte(id)).Scan(&status)
		if !errors.Is(err, pgx.ErrNoRows) {
			return orders.ActionNone, status, err
		}
		err = tx.QueryRow(ctx, `SELECT status, status = 'confirmed' AND pay_before IS NOT NULL FROM orders WHERE order_id = $1`,
			sqldb.Replan, [16]byte(id)).Scan(&status, &waits)
		if errors.Is(err, pgx.ErrNoRows) {
			return "", "", orders.ErrUnknownOrder
		} else if err != nil {
			return "", "", err
		}
	}
	return orders.ActionRefund, status, nil
}

// Statements find orders and units by their primary keys alone, and are planned each time (sqldb.Replan). Postgres has no statistics of
// a sale that has just begun: with another condition, or with a part of a key that is the same for all rows, it may read everything
// that the sale has sold for each of a few orders. With keys alone and a new plan it reads everything at most once a batch, if the
// batch is large beside the table.

// payOrders pays orders that wait for it, and writes the capture and the event of each.
//
//go:embed pay_orders.sql
var payOrders string

// Pay is one statement. It inserts references in sorted order, so that two calls that share some wait for each other instead of
// deadlocking.
func (s *Store) Pay(ctx context.Context, references map[orders.ID]string) ([]orders.ID, error) {
	ids, texts := make([][16]byte, 0, len(references)), make([]string, 0, len(references))
	for id, reference := range references {
		ids, texts = append(ids, id), append(texts, reference)
	}
	rows, _ := s.pool.Query(ctx, payOrders, sqldb.Replan, ids, texts)
	paid, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (orders.ID, error) {
		var id [16]byte
		err := row.Scan(&id)
		return id, err
	})
	return paid, wrap("pay", err)
}

// Cancel skips orders that another transaction is paying, cancelling or expiring.
func (s *Store) Cancel(ctx context.Context, ids []orders.ID) ([]storage.Return, error) {
	return s.end(ctx, orders.StatusCancelled, `WHERE order_id = ANY($1) FOR UPDATE SKIP LOCKED`, sqlstore.UUIDs(ids))
}

// Expire skips orders that another transaction is paying or cancelling.
func (s *Store) Expire(ctx context.Context, limit int) ([]storage.Return, error) {
	return s.end(ctx, orders.StatusExpired, `
		WHERE status = 'confirmed' AND pay_before <= now()
		ORDER BY pay_before LIMIT $1 FOR UPDATE SKIP LOCKED`, limit)
}

// end locks the orders that the condition finds, and ends those that wait for payment: it frees their units, and writes the
// return and the event of each. It locks the rows of their sales FOR SHARE, so that a recovery either counts the orders as
// ended, or comes first, and then their returns have its epoch.
func (s *Store) end(ctx context.Context, to orders.Status, condition string, arg any) ([]storage.Return, error) {
	var ended []storage.Return
	err := s.inTx(ctx, string(to), func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, `
			SELECT order_id, sale, item, 0::bigint, buyer_hash, coalesce(key_hash = '', true), quantity, units,
			       status = 'confirmed' AND pay_before IS NOT NULL
			FROM orders `+condition, sqldb.Replan, arg)
		ended = nil
		_, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
			var waits bool
			r, err := sqlstore.ScanReturn(row, &waits)
			if r.Status = to; waits {
				ended = append(ended, r)
			}
			return struct{}{}, err
		})
		if err != nil || len(ended) == 0 {
			return err
		}
		epochs, err := shareSales(ctx, tx, ended, to == orders.StatusCancelled)
		if err != nil {
			return err
		}
		for i := range ended {
			ended[i].Epoch = epochs[ended[i].Sale]
		}
		ended = slices.DeleteFunc(ended, func(r storage.Return) bool { return r.Epoch == 0 }) // of sales that another transaction holds
		if len(ended) == 0 {
			return nil
		}
		_, err = tx.Exec(ctx, endOrders, endArgs(ended, to)...)
		return err
	})
	return ended, err
}

// shareSales locks the rows of the orders' sales FOR SHARE, and returns their epochs.
func shareSales(ctx context.Context, tx pgx.Tx, list []storage.Return, skipLocked bool) (map[string]int64, error) {
	var sales []string
	for i := range list {
		if !slices.Contains(sales, list[i].Sale) {
			sales = append(sales, list[i].Sale)
		}
	}
	query := `SELECT sale, epoch FROM sales WHERE sale = ANY($1) ORDER BY sale FOR SHARE`
	if skipLocked {
		query += ` SKIP LOCKED`
	}
	rows, _ := tx.Query(ctx, query, sales)
	epochs := make(map[string]int64, len(sales))
	var (
		sale  string
		epoch int64
	)
	_, err := pgx.ForEachRow(rows, []any{&sale, &epoch}, func() error {
		epochs[sale] = epoch
		return nil
	})
	return epochs, err
}

// unitKeys are units and the orders that own them, one slice per column, as unnest takes them.
type unitKeys struct {
	sales, items []string
	units        []int
	orders       [][16]byte
}

func (k *unitKeys) add(sale, item string, units []int, owner orders.ID) {
	for _, u := range units {
		k.sales, k.items, k.units, k.orders = append(k.sales, sale), append(k.items, item), append(k.units, u), append(k.orders, owner)
	}
}

// deleteUnits removes units from the orders that own them.
const deleteUnits = `
DELETE FROM order_units u USING unnest($1::text[], $2::text[], $3::integer[], $4::uuid[]) AS k (sale, item, unit, order_id)
WHERE u.sale = k.sale AND u.item = k.item AND u.unit = k.unit AND u.order_id = k.order_id`

// endOrders frees the units of orders, and writes the status, the event and the return of each.
//
//go:embed end_orders.sql
var endOrders string

// endArgs are the arguments of endOrders.
func endArgs(list []storage.Return, to orders.Status) []any {
	var (
		n                 = len(list)
		ids               = make([][16]byte, n)
		sales, items      = make([]string, n), make([]string, n)
		buyers, unitTexts = make([]string, n), make([]string, n)
		epochs            = make([]int64, n)
		keyless           = make([]bool, n)
		quantities        = make([]int, n)
		units             unitKeys
	)
	for i := range list {
		r := &list[i]
		ids[i], sales[i], items[i], buyers[i], unitTexts[i] = r.ID, r.Sale, r.Item, r.BuyerHash, sqlstore.ArrayText(r.Units)
		epochs[i], keyless[i], quantities[i] = r.Epoch, r.WithoutKey, r.Quantity
		units.add(r.Sale, r.Item, r.Units, r.ID)
	}
	return []any{
		sqldb.Replan, to, ids, sales, items, epochs, buyers, keyless, quantities, unitTexts, units.sales, units.items, units.units, units.orders,
	}
}
