package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// inspections find breaches: invariant and words. ?1 is the sale, ?2 how many at most.
var inspections = []string{
	// Orders whose events are not the way to their status.
	`SELECT CASE WHEN count(*) FILTER (WHERE e.status IN ('cancelled', 'expired')) > 1 THEN 'I10' ELSE 'I9' END,
	        'order ' || o.order_id || ' is ' || o.status || ', and its events say ' || coalesce(string_agg(e.status, ', ' ORDER BY e.seq), 'nothing')
	 FROM orders o LEFT JOIN order_events e ON e.order_id = o.order_id AND e.action <> 'refund'
	 WHERE o.sale = ?1
	 GROUP BY o.order_id
	 HAVING string_agg(e.status, ' ' ORDER BY e.seq) IS DISTINCT FROM
	        CASE WHEN o.status IN ('confirmed', 'rejected') THEN o.status ELSE 'confirmed ' || o.status END
	 LIMIT ?2`,

	// What is written of orders that there are not. An event of none is of no sale, and shows in all.
	`SELECT 'I2', 'an event of order ' || order_id || ', which there is not' FROM order_events x
	 WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = x.order_id)
	 UNION SELECT 'I2', 'a payment of order ' || order_id || ', which there is not' FROM payments x
	 WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = x.order_id)
	 UNION SELECT 'I2', 'units come back from order ' || order_id || ', which there is not' FROM order_returns x
	 WHERE sale = ?1 AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = x.order_id)
	 LIMIT ?2`,

	`SELECT 'I10', 'order ' || o.order_id || ' is ' || o.status || ', and its units are on their way back'
	 FROM order_returns r JOIN orders o USING (order_id)
	 WHERE r.sale = ?1 AND o.status NOT IN ('cancelled', 'expired', 'rejected')
	 LIMIT ?2`,

	`SELECT 'I11', 'order ' || o.order_id || ' is ' || o.status || ', and ' || count(p.reference) || ' payments count for it'
	 FROM orders o LEFT JOIN payments p ON p.order_id = o.order_id AND p.action = 'none'
	 WHERE o.sale = ?1 AND (o.status = 'paid' OR p.reference IS NOT NULL)
	 GROUP BY o.order_id
	 HAVING count(p.reference) <> CASE o.status WHEN 'paid' THEN 1 ELSE 0 END
	 LIMIT ?2`,

	// Payments and their events.
	`SELECT 'I11', 'payment ' || coalesce(p.reference, e.reference) || ' of order ' || o.order_id ||
	        CASE WHEN p.reference IS NULL THEN ' is in the feed and not recorded'
	             ELSE ' is recorded, and ' || count(e.seq) || ' times in the feed' END
	 FROM payments p
	 FULL JOIN (SELECT seq, order_id, reference, action FROM order_events WHERE action <> '') e
	      ON e.reference = p.reference AND e.order_id = p.order_id AND e.action = p.action
	 JOIN orders o ON o.order_id = coalesce(p.order_id, e.order_id)
	 WHERE o.sale = ?1
	 GROUP BY o.order_id, p.reference, e.reference
	 HAVING p.reference IS NULL OR count(e.seq) <> 1
	 LIMIT ?2`,
}

const inspectLate = `
	SELECT 'I14', 'order ' || order_id || ' should have expired at ' || strftime('%Y-%m-%dT%H:%M:%SZ', pay_before / 1000, 'unixepoch')
	FROM orders WHERE sale = ?1 AND status = 'confirmed' AND pay_before <= ?3
	ORDER BY pay_before LIMIT ?2`

// Inspect asks one question after the other: what changes in between is no
// breach, and its caller looks again.
func (s *Store) Inspect(ctx context.Context, sale string, late time.Duration) (orders.Inspection, error) {
	var (
		in  orders.Inspection
		now = time.Now().UnixMilli()
	)
	err := s.db.QueryRowContext(ctx, `
		SELECT count(*), count(*) FILTER (WHERE status = 'confirmed' AND pay_before <= ?2 AND pay_before > ?3)
		FROM orders WHERE sale = ?1`, sale, now, now-late.Milliseconds()).Scan(&in.Orders, &in.Expiring)
	if err != nil {
		return in, wrap("inspect", err)
	}
	err = s.db.QueryRowContext(ctx, `
		SELECT count(*), count(*) FILTER (WHERE action = 'refund') FROM payments JOIN orders USING (order_id) WHERE sale = ?`, sale).
		Scan(&in.Captured, &in.Refunds)
	if err != nil {
		return in, wrap("inspect", err)
	}
	note := func(rows *sql.Rows) error {
		var b orders.Breach
		err := rows.Scan(&b.Invariant, &b.What)
		in.Breaches = append(in.Breaches, b)
		return err
	}
	for _, query := range inspections {
		if err := each(ctx, s.db, note, query, sale, orders.MaxBreaches); err != nil {
			return in, wrap("inspect", err)
		}
	}
	return in, wrap("inspect", each(ctx, s.db, note, inspectLate, sale, orders.MaxBreaches, now-late.Milliseconds()))
}
