package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/orders"
)

const orderColumns = `order_id, status, sale, item, buyer, quantity, units, reason, accepted_at, confirmed_at, pay_before`

// scanOrderAnd reads orderColumns, and the columns after them into more.
func scanOrderAnd(row pgx.CollectableRow, more ...any) (orders.Order, error) {
	var (
		o                   orders.Order
		id                  [16]byte
		confirmed, payUntil *time.Time
	)
	columns := []any{&id, &o.Status, &o.Sale, &o.Item, &o.Buyer, &o.Quantity, &o.Units, &o.Reason, &o.AcceptedAt, &confirmed, &payUntil}
	err := row.Scan(append(columns, more...)...)
	o.ID, o.AcceptedAt = id, o.AcceptedAt.UTC()
	if confirmed != nil {
		o.ConfirmedAt = confirmed.UTC()
	}
	if payUntil != nil {
		o.PayBefore = payUntil.UTC()
	}
	return o, err
}

// letterColumns are orderColumns of a dead letter d, whose payload, selected after them, has the rest.
const letterColumns = `order_id, 'accepted', sale, item, '', 0, '{}', '', created_at, NULL, NULL`

// scanOrderOrLetter reads orderColumns and the payload of a dead letter, NULL for an order.
func scanOrderOrLetter(row pgx.CollectableRow) (orders.Order, error) {
	var letter []byte
	o, err := scanOrderAnd(row, &letter)
	if err != nil || letter == nil {
		return o, err
	}
	if r, err := orders.ParseReservation(letter); err == nil {
		return r.Accepted(), nil
	}
	return o, nil // the payload is damaged: an accepted order of which nothing else is known
}

// Committed reads the orders with one statement.
func (s *Store) Committed(ctx context.Context, ids []orders.ID) (map[orders.ID]orders.Order, error) {
	rows, _ := s.pool.Query(ctx, `
		SELECT `+orderColumns+`, NULL::bytea FROM orders WHERE order_id = ANY($1)
		UNION ALL
		SELECT `+letterColumns+`, payload FROM dead_letters WHERE order_id = ANY($1)`, uuids(ids))
	list, err := pgx.CollectRows(rows, scanOrderOrLetter)
	found := make(map[orders.ID]orders.Order, len(list))
	for _, o := range list {
		if _, ok := found[o.ID]; !ok || o.Status != orders.StatusAccepted { // an order's row takes precedence over its dead letter
			found[o.ID] = o
		}
	}
	return found, wrap("committed", err)
}

// uuids converts ids to the type that pgx takes.
func uuids(ids []orders.ID) [][16]byte {
	raw := make([][16]byte, len(ids))
	for i, id := range ids {
		raw[i] = id
	}
	return raw
}

// Statuses returns the statuses of the orders that have a row, and accepted for dead letters.
func (s *Store) Statuses(ctx context.Context, ids []orders.ID) (map[orders.ID]orders.Status, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT order_id, status FROM orders WHERE order_id = ANY($1)
		UNION ALL SELECT order_id, 'accepted' FROM dead_letters WHERE order_id = ANY($1)`, uuids(ids))
	if err != nil {
		return nil, wrap("statuses", err)
	}
	found := make(map[orders.ID]orders.Status, len(ids))
	var (
		id     [16]byte
		status orders.Status
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &status}, func() error {
		found[id] = status
		return nil
	})
	return found, wrap("statuses", err)
}

// Orders lists a sale's orders, including its dead letters as accepted orders.
func (s *Store) Orders(ctx context.Context, f orders.Filter) ([]orders.Order, error) {
	rows, err := s.pool.Query(ctx, `
		(SELECT `+orderColumns+`, NULL::bytea FROM orders
		 WHERE sale = $1 AND order_id > $2 AND ($3 = '' OR buyer_hash = $3) AND ($4 = '' OR status = $4)
		 ORDER BY order_id LIMIT $5)
		UNION ALL
		(SELECT `+letterColumns+`, payload FROM dead_letters d
		 WHERE sale = $1 AND order_id > $2 AND ($3 = '' OR convert_from(payload, 'UTF8')::json ->> 'h' = $3) AND $4 IN ('', 'accepted')
		   AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = d.order_id)
		 ORDER BY order_id LIMIT $5)
		ORDER BY order_id LIMIT $5`, f.Sale, [16]byte(f.After), f.BuyerHash, f.Status, f.Limit)
	if err != nil {
		return nil, wrap("orders", err)
	}
	list, err := pgx.CollectRows(rows, scanOrderOrLetter)
	return list, wrap("orders", err)
}

// Holdings reads one snapshot, row by row. The units of an order are read from its row: a join to order_units would depend on
// statistics that Postgres does not have for a sale that has just begun.
func (s *Store) Holdings(ctx context.Context, sale string, fn func(orders.Holding) error) error {
	rows, err := s.pool.Query(ctx, `
		SELECT order_id, item, buyer_hash, key_hash, quantity, status,
		       CASE WHEN status IN ('confirmed', 'paid') THEN units ELSE '{}' END, NULL::bytea
		FROM orders
		WHERE sale = $1 AND (key_hash IS NOT NULL OR status IN ('confirmed', 'paid'))
		UNION ALL
		SELECT order_id, item, '', NULL, 0, 'accepted', '{}', payload FROM dead_letters d
		WHERE sale = $1 AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = d.order_id)`, sale)
	if err != nil {
		return wrap("holdings", err)
	}
	var (
		id      [16]byte
		h       orders.Holding
		payload []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &h.Item, &h.BuyerHash, &h.KeyHash, &h.Quantity, &h.Status, &h.Units, &payload}, func() error {
		h.ID = id
		row := h
		h.Units, h.KeyHash = nil, nil
		if payload != nil {
			r, err := orders.ParseReservation(payload)
			if err != nil {
				return err
			}
			row = r.Holding()
		}
		return fn(row)
	})
	return wrap("holdings", err)
}

// Latest reads the latest order of each buyer: its id and when it was accepted.
func (s *Store) Latest(ctx context.Context, sale, item string, buyers []string) (map[string]orders.Order, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT DISTINCT ON (buyer_hash) buyer_hash, order_id, accepted_at FROM orders
		WHERE sale = $1 AND item = $2 AND buyer_hash = ANY($3) AND status <> 'rejected' ORDER BY buyer_hash, accepted_at DESC`, sale, item, buyers)
	if err != nil {
		return nil, wrap("latest", err)
	}
	var (
		latest = make(map[string]orders.Order)
		buyer  string
		id     [16]byte
		at     time.Time
	)
	_, err = pgx.ForEachRow(rows, []any{&buyer, &id, &at}, func() error {
		latest[buyer] = orders.Order{ID: id, AcceptedAt: at.UTC()}
		return nil
	})
	return latest, wrap("latest", err)
}

// Unsettled reports whether orders of an item wait for payment or are dead letters, or units of ended ones are about to be returned.
func (s *Store) Unsettled(ctx context.Context, sale, item string) (unsettled bool, err error) {
	err = s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM orders WHERE sale = $1 AND item = $2 AND status = 'confirmed' AND pay_before IS NOT NULL)
		OR EXISTS (SELECT 1 FROM order_returns WHERE sale = $1 AND item = $2) OR EXISTS (SELECT 1 FROM dead_letters WHERE sale = $1 AND item = $2)`, sale, item).Scan(&unsettled)
	return unsettled, wrap("unsettled", err)
}

// Owners reads one snapshot, row by row.
func (s *Store) Owners(ctx context.Context, sale string, items []string, fn func(item string, unit int, owner orders.ID)) error {
	rows, err := s.pool.Query(ctx, `SELECT item, unit, order_id FROM order_units WHERE sale = $1 AND item = ANY($2)`, sale, items)
	if err != nil {
		return wrap("owners", err)
	}
	var (
		item string
		unit int
		id   [16]byte
	)
	_, err = pgx.ForEachRow(rows, []any{&item, &unit, &id}, func() error {
		fn(item, unit, id)
		return nil
	})
	return wrap("owners", err)
}
