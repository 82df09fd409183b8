package sqlstore

import (
	"context"
	_ "embed"
	"time"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// UUIDs converts ids to what package sqldb takes.
func UUIDs(ids []orders.ID) [][16]byte {
	raw := make([][16]byte, len(ids))
	for i, id := range ids {
		raw[i] = id
	}
	return raw
}

// Committed reads the orders with one statement.
func (s *Store) Committed(ctx context.Context, ids []orders.ID) (map[orders.ID]orders.Order, error) {
	found := make(map[orders.ID]orders.Order, len(ids))
	err := s.db.Replanned().Each(ctx, `
		SELECT `+orderColumns+` FROM orders WHERE order_id {in $1}
		UNION ALL
		SELECT `+letterColumns+` FROM dead_letters WHERE order_id {in $1}`, func(row sqldb.Row) error {
		o, err := scanOrder(row)
		if _, ok := found[o.ID]; !ok || o.Status != orders.StatusAccepted { // an order's row takes precedence over its dead letter
			found[o.ID] = o
		}
		return err
	}, UUIDs(ids))
	return found, s.wrap("committed", err)
}

// Statuses returns the statuses of the orders that have a row, and accepted for dead letters.
func (s *Store) Statuses(ctx context.Context, ids []orders.ID) (map[orders.ID]orders.Status, error) {
	found := make(map[orders.ID]orders.Status, len(ids))
	err := s.db.Replanned().Each(ctx, `
		SELECT order_id, status FROM orders WHERE order_id {in $1}
		UNION ALL SELECT order_id, 'accepted' FROM dead_letters WHERE order_id {in $1}`, func(row sqldb.Row) error {
		var (
			id     orders.ID
			status orders.Status
		)
		err := row.Scan((*[16]byte)(&id), &status)
		if _, ok := found[id]; !ok || status != orders.StatusAccepted { // as in Committed
			found[id] = status
		}
		return err
	}, UUIDs(ids))
	return found, s.wrap("statuses", err)
}

// Orders lists a sale's orders, including its dead letters as accepted orders.
func (s *Store) Orders(ctx context.Context, f storage.Filter) ([]orders.Order, error) {
	list, err := all(ctx, s.db.Replanned(), `
		SELECT * FROM (SELECT `+orderColumns+` FROM orders
			WHERE sale = $1 AND order_id > $2 AND ($3 = '' OR buyer_hash = $3) AND ($4 = '' OR status = $4) ORDER BY order_id LIMIT $5) AS o
		UNION ALL SELECT * FROM (SELECT `+letterColumns+` FROM dead_letters d
			WHERE sale = $1 AND order_id > $2 AND ($3 = '' OR {payload} ->> 'h' = $3) AND $4 IN ('', 'accepted')
			  AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = d.order_id) ORDER BY order_id LIMIT $5) AS d
		ORDER BY order_id LIMIT $5`, scanOrder, f.Sale, [16]byte(f.After), f.BuyerHash, f.Status, f.Limit)
	return list, s.wrap("orders", err)
}

//go:embed holdings.sql
var holdings string

// Holdings reads one snapshot, row by row. The units of an order are read from its row: a join to order_units would depend on
// statistics that Postgres does not have for a sale that has just begun.
func (s *Store) Holdings(ctx context.Context, sale string, fn func(storage.Holding) error) error {
	err := s.db.Each(ctx, holdings, func(row sqldb.Row) error {
		var (
			h       storage.Holding
			payload []byte
		)
		if err := row.Scan((*[16]byte)(&h.ID), &h.Item, &h.BuyerHash, &h.KeyHash, &h.Quantity, &h.Status, &h.Units, &payload); err != nil {
			return err
		}
		if payload != nil {
			r, err := orders.ParseReservation(payload)
			if err != nil {
				return err
			}
			h = storage.HoldingOf(&r)
		}
		return fn(h)
	}, sale)
	return s.wrap("holdings", err)
}

// Latest reads the latest order of each buyer: its id and when it was accepted.
func (s *Store) Latest(ctx context.Context, sale, item string, buyers []string) (map[string]orders.Order, error) {
	latest := make(map[string]orders.Order)
	err := s.db.Replanned().Each(ctx, `
		SELECT buyer_hash, order_id, accepted_at FROM orders
		WHERE sale = $1 AND item = $2 AND buyer_hash {in $3} AND status <> 'rejected' ORDER BY accepted_at`, func(row sqldb.Row) error {
		var (
			buyer string
			o     orders.Order
		)
		err := row.Scan(&buyer, (*[16]byte)(&o.ID), (*sqldb.Time)(&o.AcceptedAt))
		latest[buyer] = o
		return err
	}, sale, item, buyers)
	return latest, s.wrap("latest", err)
}

// Unsettled reports whether orders of an item wait for payment or are dead letters, or units of ended ones are about to be returned.
func (s *Store) Unsettled(ctx context.Context, sale, item string) (unsettled bool, err error) {
	err = s.db.Replanned().One(ctx, `SELECT EXISTS (SELECT 1 FROM orders WHERE sale = $1 AND item = $2 AND status = 'confirmed' AND pay_before IS NOT NULL)
		OR EXISTS (SELECT 1 FROM order_returns WHERE sale = $1 AND item = $2) OR EXISTS (SELECT 1 FROM dead_letters WHERE sale = $1 AND item = $2)`,
		[]any{&unsettled}, sale, item)
	return unsettled, s.wrap("unsettled", err)
}

// Owners reads one snapshot, row by row.
func (s *Store) Owners(ctx context.Context, sale string, items []string, fn func(item string, unit int, owner orders.ID)) error {
	var (
		item string
		unit int
		id   orders.ID
	)
	err := s.db.Each(ctx, `SELECT item, unit, order_id FROM order_units WHERE sale = $1 AND item {in $2}`, func(row sqldb.Row) error {
		if err := row.Scan(&item, &unit, (*[16]byte)(&id)); err != nil {
			return err
		}
		fn(item, unit, id)
		return nil
	}, sale, items)
	return s.wrap("owners", err)
}

// Totals counts the orders of a sale.
func (s *Store) Totals(ctx context.Context, sale string) (orders.Totals, error) {
	t := orders.Totals{Orders: make(map[orders.Status]int), Items: make(map[string]orders.ItemTotals)}
	err := s.db.Each(ctx, `SELECT item, status, count(*), sum(quantity), max(accepted_at) FROM orders WHERE sale = $1 GROUP BY item, status`,
		func(row sqldb.Row) error {
			var (
				item          string
				status        orders.Status
				number, units int
				latest        sqldb.Time
			)
			if err := row.Scan(&item, &status, &number, &units, &latest); err != nil {
				return err
			}
			t.Add(item, status, number, units, time.Time(latest))
			return nil
		}, sale)
	if err != nil {
		return t, s.wrap("totals", err)
	}
	err = s.db.One(ctx, `SELECT count(*) FROM payments JOIN orders USING (order_id) WHERE action = 'refund' AND sale = $1`,
		[]any{&t.Refunds}, sale)
	return t, s.wrap("totals", err)
}
