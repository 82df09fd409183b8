package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/orders"
)

const orderColumns = `order_id, status, sale, item, buyer, quantity, units, reason, accepted_at, confirmed_at, pay_before`

func scanOrder(row pgx.CollectableRow) (orders.Order, error) {
	var (
		o                   orders.Order
		id                  [16]byte
		confirmed, payUntil *time.Time
	)
	err := row.Scan(&id, &o.Status, &o.Sale, &o.Item, &o.Buyer, &o.Quantity, &o.Units, &o.Reason, &o.AcceptedAt, &confirmed, &payUntil)
	o.ID, o.AcceptedAt = id, o.AcceptedAt.UTC()
	if confirmed != nil {
		o.ConfirmedAt = confirmed.UTC()
	}
	if payUntil != nil {
		o.PayBefore = payUntil.UTC()
	}
	return o, err
}

// Order returns an order, or a dead letter as the accepted order it is.
func (s *Store) Order(ctx context.Context, id orders.ID) (orders.Order, error) {
	rows, _ := s.pool.Query(ctx, `SELECT `+orderColumns+` FROM orders WHERE order_id = $1`, [16]byte(id))
	o, err := pgx.CollectExactlyOneRow(rows, scanOrder)
	if !errors.Is(err, pgx.ErrNoRows) {
		return o, wrap("order", err)
	}
	var payload []byte
	err = s.pool.QueryRow(ctx, `SELECT payload FROM dead_letters WHERE order_id = $1`, [16]byte(id)).Scan(&payload)
	if errors.Is(err, pgx.ErrNoRows) {
		return orders.Order{}, orders.ErrUnknownOrder
	} else if err != nil {
		return orders.Order{}, wrap("order", err)
	}
	r, err := orders.ParseReservation(payload)
	return r.Accepted(), wrap("order", err)
}

// Statuses returns the statuses of those orders that have a row; a dead letter's is accepted.
func (s *Store) Statuses(ctx context.Context, ids []orders.ID) (map[orders.ID]orders.Status, error) {
	raw := make([][16]byte, len(ids))
	for i, id := range ids {
		raw[i] = id
	}
	rows, err := s.pool.Query(ctx, `
		SELECT order_id, status FROM orders WHERE order_id = ANY($1)
		UNION ALL SELECT order_id, 'accepted' FROM dead_letters WHERE order_id = ANY($1)`, raw)
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

// Orders lists a sale's orders.
func (s *Store) Orders(ctx context.Context, f orders.Filter) ([]orders.Order, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT `+orderColumns+` FROM orders
		WHERE sale = $1 AND order_id > $2 AND ($3 = '' OR buyer_hash = $3) AND ($4 = '' OR status = $4)
		ORDER BY order_id LIMIT $5`, f.Sale, [16]byte(f.After), f.BuyerHash, f.Status, f.Limit)
	if err != nil {
		return nil, wrap("orders", err)
	}
	list, err := pgx.CollectRows(rows, scanOrder)
	return list, wrap("orders", err)
}

// Holdings reads one snapshot, row by row.
func (s *Store) Holdings(ctx context.Context, sale string, fn func(orders.Holding) error) error {
	rows, err := s.pool.Query(ctx, `
		SELECT o.order_id, o.item, o.buyer_hash, o.key_hash, o.quantity, o.status,
		       coalesce(array_agg(u.unit) FILTER (WHERE u.unit IS NOT NULL), '{}'), NULL::bytea
		FROM orders o LEFT JOIN order_units u USING (sale, item, order_id)
		WHERE o.sale = $1 AND (o.key_hash IS NOT NULL OR o.status IN ('confirmed', 'paid'))
		GROUP BY o.order_id
		UNION ALL
		SELECT order_id, item, '', NULL, 0, 'accepted', '{}', payload FROM dead_letters d
		WHERE sale = $1 AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = d.order_id)
		ORDER BY 1`, sale)
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

// Tally reads what must add up for one item, in one snapshot.
func (s *Store) Tally(ctx context.Context, sale, item string) (orders.Tally, error) {
	t := orders.Tally{Owned: make(map[int]orders.ID)}
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT unit, order_id FROM order_units WHERE sale = $1 AND item = $2`, sale, item)
		if err != nil {
			return err
		}
		var (
			unit    int
			id      [16]byte
			payload []byte
		)
		if _, err := pgx.ForEachRow(rows, []any{&unit, &id}, func() error {
			t.Owned[unit] = id
			return nil
		}); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `
			SELECT
			  (SELECT count(*) FROM order_units u WHERE u.sale = $1 AND u.item = $2 AND NOT EXISTS (
			     SELECT 1 FROM orders o WHERE o.order_id = u.order_id AND o.status IN ('confirmed', 'paid'))),
			  (SELECT count(*) FROM (
			     SELECT 1 FROM orders o
			     LEFT JOIN LATERAL unnest(o.units) AS n(unit) ON true
			     LEFT JOIN order_units u ON u.sale = $1 AND u.item = $2 AND u.unit = n.unit AND u.order_id = o.order_id
			     WHERE o.sale = $1 AND o.item = $2 AND o.status IN ('confirmed', 'paid')
			     GROUP BY o.order_id HAVING count(DISTINCT u.unit) <> o.quantity) q),
			  (SELECT count(*) FROM (
			     SELECT 1 FROM orders o JOIN items i USING (sale, item)
			     WHERE o.sale = $1 AND o.item = $2 AND o.status IN ('confirmed', 'paid')
			     GROUP BY o.buyer_hash, i.quota_ever HAVING sum(o.quantity) > i.quota_ever) q)`,
			sale, item).Scan(&t.Orphans, &t.Unseated, &t.OverQuota); err != nil {
			return err
		}
		if rows, err = tx.Query(ctx, `
			SELECT payload FROM dead_letters d
			WHERE sale = $1 AND item = $2 AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = d.order_id)`, sale, item); err != nil {
			return err
		}
		_, err = pgx.ForEachRow(rows, []any{&payload}, func() error {
			r, err := orders.ParseReservation(payload)
			if err != nil {
				return err
			}
			t.DeadLetters++
			t.DeadUnits = append(t.DeadUnits, r.Units...)
			return nil
		})
		return err
	})
	return t, wrap("tally", err)
}
