package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/orders"
)

// Capture changes the order only together with the record of the capture.
func (s *Store) Capture(ctx context.Context, id orders.ID, reference string) (orders.Payment, error) {
	p := orders.Payment{Order: id, Reference: reference}
	errRecorded := errors.New("the reference is known")
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
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
		return p, wrap("capture", err)
	}
	var recorded [16]byte
	err = s.pool.QueryRow(ctx, `SELECT order_id, action, status FROM payments JOIN orders USING (order_id) WHERE reference = $1`,
		reference).Scan(&recorded, &p.Action, &p.Status)
	if err == nil && recorded != id {
		err = fmt.Errorf("%w: reference %q is of another order", orders.ErrConflict, reference)
	}
	return p, wrap("capture", err)
}

// pay pays the order if it waits for that, and returns what it is then.
func pay(ctx context.Context, tx pgx.Tx, id orders.ID) (action orders.Action, status orders.Status, err error) {
	for waits := true; waits; { // an order that is committed after the first statement is seen by the second
		err = tx.QueryRow(ctx, `
			UPDATE orders SET status = 'paid' WHERE order_id = $1 AND status = 'confirmed' AND pay_before IS NOT NULL
			RETURNING status`, [16]byte(id)).Scan(&status)
		if !errors.Is(err, pgx.ErrNoRows) {
			return orders.ActionNone, status, err
		}
		err = tx.QueryRow(ctx, `SELECT status, status = 'confirmed' AND pay_before IS NOT NULL FROM orders WHERE order_id = $1`, [16]byte(id)).
			Scan(&status, &waits)
		if errors.Is(err, pgx.ErrNoRows) {
			return "", "", orders.ErrUnknownOrder
		} else if err != nil {
			return "", "", err
		}
	}
	return orders.ActionRefund, status, nil
}

// payOrders pays orders that wait for it, and writes the capture and the event of each.
const payOrders = `
WITH waiting AS (
	SELECT o.order_id, a.reference
	FROM unnest($1::uuid[], $2::text[]) AS a (order_id, reference) JOIN orders o USING (order_id)
	WHERE o.status = 'confirmed' AND o.pay_before IS NOT NULL
	FOR UPDATE OF o SKIP LOCKED
), recorded AS (
	INSERT INTO payments (reference, order_id, action) SELECT reference, order_id, 'none' FROM waiting ORDER BY reference
	ON CONFLICT DO NOTHING
	RETURNING reference, order_id
), paid AS (
	UPDATE orders o SET status = 'paid' FROM recorded r WHERE o.order_id = r.order_id
), told AS (
	INSERT INTO order_events (order_id, status, action, reference) SELECT order_id, 'paid', 'none', reference FROM recorded
)
SELECT order_id FROM recorded`

// Pay is one statement. It takes references in their order, so that two that share some wait for each other instead of deadlocking.
func (s *Store) Pay(ctx context.Context, references map[orders.ID]string) ([]orders.ID, error) {
	ids, texts := make([][16]byte, 0, len(references)), make([]string, 0, len(references))
	for id, reference := range references {
		ids, texts = append(ids, id), append(texts, reference)
	}
	rows, _ := s.pool.Query(ctx, payOrders, ids, texts)
	paid, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (orders.ID, error) {
		var id [16]byte
		err := row.Scan(&id)
		return id, err
	})
	return paid, wrap("pay", err)
}

// Cancel leaves orders to whoever is about to pay, cancel or expire them.
func (s *Store) Cancel(ctx context.Context, ids []orders.ID) ([]orders.Return, error) {
	return s.end(ctx, orders.StatusCancelled, `
		SELECT order_id, sale FROM orders WHERE order_id = ANY($1) AND status = 'confirmed' AND pay_before IS NOT NULL
		FOR UPDATE SKIP LOCKED`, uuids(ids))
}

// Expire leaves orders to whoever is about to pay or cancel them.
func (s *Store) Expire(ctx context.Context, limit int) ([]orders.Return, error) {
	return s.end(ctx, orders.StatusExpired, `
		SELECT order_id, sale FROM orders WHERE status = 'confirmed' AND pay_before <= now()
		ORDER BY pay_before LIMIT $1 FOR UPDATE SKIP LOCKED`, limit)
}

// NextExpiry reads the index of unpaid orders.
func (s *Store) NextExpiry(ctx context.Context, most time.Duration) (time.Duration, error) {
	var wait time.Duration
	err := s.pool.QueryRow(ctx, `
		SELECT greatest(coalesce(min(pay_before) - now(), $1::interval), interval '0') FROM orders
		WHERE status = 'confirmed' AND pay_before <= now() + $1::interval`, most).Scan(&wait)
	return wait, wrap("next expiry", err)
}

// endOrders ends orders that wait for their payment, frees their units, and
// writes the return and the event of each.
const endOrders = `
WITH ended AS (
	UPDATE orders o SET status = $2, key_hash = NULLIF(key_hash, '')
	FROM sales s
	WHERE o.order_id = ANY($1) AND o.status = 'confirmed' AND o.pay_before IS NOT NULL AND s.sale = o.sale
	RETURNING o.order_id, o.sale, o.item, s.epoch, o.buyer_hash, o.key_hash IS NULL AS keyless, o.quantity, o.units
), freed AS (
	DELETE FROM order_units u USING ended e
	WHERE u.sale = e.sale AND u.item = e.item AND u.unit = ANY(e.units) AND u.order_id = e.order_id
), told AS (
	INSERT INTO order_events (order_id, status) SELECT order_id, $2 FROM ended
)
INSERT INTO order_returns (order_id, sale, item, epoch, buyer_hash, keyless, quantity, units)
SELECT order_id, sale, item, epoch, buyer_hash, keyless, quantity, units FROM ended
RETURNING ` + returnColumns

const returnColumns = `order_id, sale, item, epoch, buyer_hash, keyless, quantity, units`

func scanReturn(row pgx.CollectableRow) (orders.Return, error) {
	var (
		r  orders.Return
		id [16]byte
	)
	err := row.Scan(&id, &r.Sale, &r.Item, &r.Epoch, &r.BuyerHash, &r.Keyless, &r.Quantity, &r.Units)
	r.ID = id
	return r, err
}

// end locks the orders that the query finds, and ends them. It holds the rows
// of their sales FOR SHARE, so that a recovery either counts the orders as
// ended, or comes before them and their returns have its epoch.
func (s *Store) end(ctx context.Context, to orders.Status, query string, arg any) ([]orders.Return, error) {
	var ended []orders.Return
	err := s.inTx(ctx, string(to), func(tx pgx.Tx) error {
		var (
			ids   [][16]byte
			sales []string
			id    [16]byte
			sale  string
		)
		rows, _ := tx.Query(ctx, query, arg)
		if _, err := pgx.ForEachRow(rows, []any{&id, &sale}, func() error {
			ids, sales = append(ids, id), append(sales, sale)
			return nil
		}); err != nil || len(ids) == 0 {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT 1 FROM sales WHERE sale = ANY($1) ORDER BY sale FOR SHARE`, sales); err != nil {
			return err
		}
		rows, _ = tx.Query(ctx, endOrders, ids, to)
		var err error
		ended, err = pgx.CollectRows(rows, scanReturn)
		return err
	})
	for i := range ended {
		ended[i].Status = to
	}
	return ended, err
}

// Returns reads what is to be given back.
func (s *Store) Returns(ctx context.Context, sale string, limit int) ([]orders.Return, error) {
	rows, _ := s.pool.Query(ctx, `SELECT `+returnColumns+` FROM order_returns WHERE $1 = '' OR sale = $1 ORDER BY random() LIMIT $2`, sale, limit)
	list, err := pgx.CollectRows(rows, scanReturn)
	return list, wrap("returns", err)
}

// Returned deletes what was given back.
func (s *Store) Returned(ctx context.Context, ids []orders.ID) error {
	_, err := s.pool.Exec(ctx, `DELETE FROM order_returns WHERE order_id = ANY($1)`, uuids(ids))
	return wrap("returned", err)
}
