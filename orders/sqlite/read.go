package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/tidegate/tidegate/orders"
)

const orderColumns = `order_id, status, sale, item, buyer, quantity, units, reason, accepted_at, confirmed_at, pay_before`

func scanOrder(row interface{ Scan(...any) error }) (orders.Order, error) {
	var (
		o                   orders.Order
		id, units           string
		accepted            int64
		confirmed, payUntil sql.NullInt64
	)
	if err := row.Scan(&id, &o.Status, &o.Sale, &o.Item, &o.Buyer, &o.Quantity, &units, &o.Reason, &accepted, &confirmed, &payUntil); err != nil {
		return o, err
	}
	o.AcceptedAt = time.UnixMilli(accepted).UTC()
	if confirmed.Valid {
		o.ConfirmedAt = time.UnixMilli(confirmed.Int64).UTC()
	}
	if payUntil.Valid {
		o.PayBefore = time.UnixMilli(payUntil.Int64).UTC()
	}
	if err := json.Unmarshal([]byte(units), &o.Units); err != nil {
		return o, err
	}
	return o, o.ID.UnmarshalText([]byte(id))
}

// Order returns an order, or a dead letter as the accepted order it is.
func (s *Store) Order(ctx context.Context, id orders.ID) (orders.Order, error) {
	o, err := scanOrder(s.db.QueryRowContext(ctx, `SELECT `+orderColumns+` FROM orders WHERE order_id = ?`, id.String()))
	if !errors.Is(err, sql.ErrNoRows) {
		return o, wrap("order", err)
	}
	var payload []byte
	err = s.db.QueryRowContext(ctx, `SELECT payload FROM dead_letters WHERE order_id = ?`, id.String()).Scan(&payload)
	if errors.Is(err, sql.ErrNoRows) {
		return orders.Order{}, orders.ErrUnknownOrder
	} else if err != nil {
		return orders.Order{}, wrap("order", err)
	}
	r, err := orders.ParseReservation(payload)
	return r.Accepted(), wrap("order", err)
}

// Statuses returns the statuses of those orders that have a row; a dead letter's is accepted.
func (s *Store) Statuses(ctx context.Context, ids []orders.ID) (map[orders.ID]orders.Status, error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	found := make(map[orders.ID]orders.Status, len(ids))
	err = each(ctx, s.db, func(rows *sql.Rows) error {
		var (
			text   string
			id     orders.ID
			status orders.Status
		)
		if err := rows.Scan(&text, &status); err != nil {
			return err
		}
		if err := id.UnmarshalText([]byte(text)); err != nil {
			return err
		}
		found[id] = status
		return nil
	}, `
		SELECT order_id, status FROM orders WHERE order_id IN (SELECT value FROM json_each(?1))
		UNION ALL SELECT order_id, 'accepted' FROM dead_letters WHERE order_id IN (SELECT value FROM json_each(?1))`, string(list))
	return found, wrap("statuses", err)
}

// Orders lists a sale's orders.
func (s *Store) Orders(ctx context.Context, f orders.Filter) ([]orders.Order, error) {
	var list []orders.Order
	err := each(ctx, s.db, func(rows *sql.Rows) error {
		o, err := scanOrder(rows)
		list = append(list, o)
		return err
	}, `
		SELECT `+orderColumns+` FROM orders
		WHERE sale = ?1 AND order_id > ?2 AND (?3 = '' OR buyer_hash = ?3) AND (?4 = '' OR status = ?4)
		ORDER BY order_id LIMIT ?5`, f.Sale, f.After.String(), f.BuyerHash, f.Status, f.Limit)
	return list, wrap("orders", err)
}

// Holdings reads one snapshot, row by row.
func (s *Store) Holdings(ctx context.Context, sale string, fn func(orders.Holding) error) error {
	err := each(ctx, s.db, func(rows *sql.Rows) error {
		var (
			id, units string
			h         orders.Holding
		)
		if err := rows.Scan(&id, &h.Item, &h.BuyerHash, &h.KeyHash, &h.Quantity, &h.Status, &units); err != nil {
			return err
		}
		if err := h.ID.UnmarshalText([]byte(id)); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(units), &h.Units); err != nil {
			return err
		}
		return fn(h)
	}, `
		SELECT order_id, item, buyer_hash, key_hash, quantity, status,
		       CASE WHEN status IN ('confirmed', 'paid') THEN units ELSE '[]' END
		FROM orders WHERE sale = ? AND (key_hash IS NOT NULL OR status IN ('confirmed', 'paid'))
		ORDER BY order_id`, sale)
	if err != nil {
		return wrap("holdings", err)
	}
	return wrap("holdings", s.deadLetters(ctx, sale, "", func(r orders.Reservation) error { return fn(r.Holding()) }))
}

// deadLetters calls fn for those of a sale, or of one item of it.
func (s *Store) deadLetters(ctx context.Context, sale, item string, fn func(orders.Reservation) error) error {
	return each(ctx, s.db, func(rows *sql.Rows) error {
		var payload []byte
		if err := rows.Scan(&payload); err != nil {
			return err
		}
		r, err := orders.ParseReservation(payload)
		if err != nil {
			return err
		}
		return fn(r)
	}, `
		SELECT payload FROM dead_letters d
		WHERE sale = ?1 AND (?2 = '' OR item = ?2) AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = d.order_id)
		ORDER BY order_id`, sale, item)
}

// Tally reads what must add up for one item.
func (s *Store) Tally(ctx context.Context, sale, item string) (orders.Tally, error) {
	t := orders.Tally{Owned: make(map[int]orders.ID)}
	err := each(ctx, s.db, func(rows *sql.Rows) error {
		var (
			unit int
			text string
			id   orders.ID
		)
		if err := rows.Scan(&unit, &text); err != nil {
			return err
		}
		if err := id.UnmarshalText([]byte(text)); err != nil {
			return err
		}
		t.Owned[unit] = id
		return nil
	}, `SELECT unit, order_id FROM order_units WHERE sale = ? AND item = ?`, sale, item)
	if err != nil {
		return t, wrap("tally", err)
	}
	if err := s.db.QueryRowContext(ctx, `
		SELECT
		  (SELECT count(*) FROM order_units u WHERE u.sale = ?1 AND u.item = ?2 AND NOT EXISTS (
		     SELECT 1 FROM orders o WHERE o.order_id = u.order_id AND o.status IN ('confirmed', 'paid'))),
		  (SELECT count(*) FROM orders o WHERE o.sale = ?1 AND o.item = ?2 AND o.status IN ('confirmed', 'paid')
		     AND o.quantity <> (SELECT count(*) FROM order_units u WHERE u.sale = ?1 AND u.item = ?2
		                        AND u.unit IN (SELECT value FROM json_each(o.units)) AND u.order_id = o.order_id)),
		  (SELECT count(*) FROM (
		     SELECT 1 FROM orders o JOIN items i USING (sale, item)
		     WHERE o.sale = ?1 AND o.item = ?2 AND o.status IN ('confirmed', 'paid')
		     GROUP BY o.buyer_hash, i.quota_ever HAVING sum(o.quantity) > i.quota_ever))`,
		sale, item).Scan(&t.Orphans, &t.Unseated, &t.OverQuota); err != nil {
		return t, wrap("tally", err)
	}
	err = s.deadLetters(ctx, sale, item, func(r orders.Reservation) error {
		t.DeadLetters++
		t.DeadUnits = append(t.DeadUnits, r.Units...)
		return nil
	})
	return t, wrap("tally", err)
}
