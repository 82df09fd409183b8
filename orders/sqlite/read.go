package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/tidegate/tidegate/orders"
)

const orderColumns = `order_id, status, sale, item, buyer, quantity, units, reason, accepted_at, confirmed_at, pay_before`

// scanOrder reads orderColumns, and the columns after them into more.
func scanOrder(row interface{ Scan(...any) error }, more ...any) (orders.Order, error) {
	var (
		o                   orders.Order
		id, units           string
		accepted            int64
		confirmed, payUntil sql.NullInt64
	)
	columns := []any{&id, &o.Status, &o.Sale, &o.Item, &o.Buyer, &o.Quantity, &units, &o.Reason, &accepted, &confirmed, &payUntil}
	if err := row.Scan(append(columns, more...)...); err != nil {
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

// letterColumns are orderColumns of a dead letter d, whose payload, selected after them, has the rest.
const letterColumns = `order_id, 'accepted', sale, item, '', 0, '[]', '', created_at, NULL, NULL`

// scanOrderOrLetter reads orderColumns and the payload of a dead letter, NULL for an order.
func scanOrderOrLetter(rows *sql.Rows) (orders.Order, error) {
	var letter []byte
	o, err := scanOrder(rows, &letter)
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
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	found := make(map[orders.ID]orders.Order, len(ids))
	err = each(ctx, s.db, func(rows *sql.Rows) error {
		o, err := scanOrderOrLetter(rows)
		found[o.ID] = o
		return err
	}, `
		SELECT `+orderColumns+`, NULL FROM orders WHERE order_id IN (SELECT value FROM json_each(?1))
		UNION ALL
		SELECT `+letterColumns+`, payload FROM dead_letters d
		WHERE order_id IN (SELECT value FROM json_each(?1)) AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = d.order_id)`, string(list))
	return found, wrap("committed", err)
}

// Statuses returns the statuses of the orders that have a row, and accepted for dead letters.
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

// Orders lists a sale's orders, including its dead letters as accepted orders.
func (s *Store) Orders(ctx context.Context, f orders.Filter) ([]orders.Order, error) {
	var list []orders.Order
	err := each(ctx, s.db, func(rows *sql.Rows) error {
		o, err := scanOrderOrLetter(rows)
		list = append(list, o)
		return err
	}, `
		SELECT * FROM (
			SELECT `+orderColumns+`, NULL FROM orders
			WHERE sale = ?1 AND order_id > ?2 AND (?3 = '' OR buyer_hash = ?3) AND (?4 = '' OR status = ?4)
			ORDER BY order_id LIMIT ?5)
		UNION ALL
		SELECT * FROM (
			SELECT `+letterColumns+`, payload FROM dead_letters d
			WHERE sale = ?1 AND order_id > ?2 AND (?3 = '' OR CAST(payload AS TEXT) ->> 'h' = ?3) AND ?4 IN ('', 'accepted')
			  AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = d.order_id)
			ORDER BY order_id LIMIT ?5)
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
		FROM orders WHERE sale = ? AND (key_hash IS NOT NULL OR status IN ('confirmed', 'paid'))`, sale)
	if err != nil {
		return wrap("holdings", err)
	}
	err = each(ctx, s.db, func(rows *sql.Rows) error {
		var payload []byte
		if err := rows.Scan(&payload); err != nil {
			return err
		}
		r, err := orders.ParseReservation(payload)
		if err != nil {
			return err
		}
		return fn(r.Holding())
	}, `
		SELECT payload FROM dead_letters d
		WHERE sale = ? AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = d.order_id)`, sale)
	return wrap("holdings", err)
}

// Latest reads the latest order of each buyer: its id and when it was accepted.
func (s *Store) Latest(ctx context.Context, sale, item string, buyers []string) (map[string]orders.Order, error) {
	list, err := json.Marshal(buyers)
	if err != nil {
		return nil, err
	}
	latest := make(map[string]orders.Order)
	err = each(ctx, s.db, func(rows *sql.Rows) error {
		var (
			buyer, text string
			at          int64
			o           orders.Order
		)
		if err := rows.Scan(&buyer, &text, &at); err != nil {
			return err
		}
		o.AcceptedAt = time.UnixMilli(at).UTC()
		err := o.ID.UnmarshalText([]byte(text))
		latest[buyer] = o
		return err
	}, `SELECT buyer_hash, order_id, max(accepted_at) FROM orders
		WHERE sale = ?1 AND item = ?2 AND buyer_hash IN (SELECT value FROM json_each(?3)) AND status <> 'rejected' GROUP BY buyer_hash`, sale, item, string(list))
	return latest, wrap("latest", err)
}

// Unsettled reports whether orders of an item wait for payment or are dead letters, or units of ended ones are about to be returned.
func (s *Store) Unsettled(ctx context.Context, sale, item string) (unsettled bool, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM orders WHERE sale = ?1 AND item = ?2 AND status = 'confirmed' AND pay_before IS NOT NULL)
		OR EXISTS (SELECT 1 FROM order_returns WHERE sale = ?1 AND item = ?2) OR EXISTS (SELECT 1 FROM dead_letters WHERE sale = ?1 AND item = ?2)`, sale, item).Scan(&unsettled)
	return unsettled, wrap("unsettled", err)
}

// Owners reads one snapshot, row by row.
func (s *Store) Owners(ctx context.Context, sale string, items []string, fn func(item string, unit int, owner orders.ID)) error {
	list, err := json.Marshal(items)
	if err != nil {
		return wrap("owners", err)
	}
	err = each(ctx, s.db, func(rows *sql.Rows) error {
		var (
			item, text string
			unit       int
			id         orders.ID
		)
		if err := rows.Scan(&item, &unit, &text); err != nil {
			return err
		}
		if err := id.UnmarshalText([]byte(text)); err != nil {
			return err
		}
		fn(item, unit, id)
		return nil
	}, `SELECT item, unit, order_id FROM order_units WHERE sale = ? AND item IN (SELECT value FROM json_each(?))`, sale, string(list))
	return wrap("owners", err)
}
