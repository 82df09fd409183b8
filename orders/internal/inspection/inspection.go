// Package inspection queries a database of orders for inconsistencies, in SQL that Postgres and SQLite both accept.
package inspection

// A Breach is one inconsistency. Two looks that find the same one return equal values.
type Breach struct {
	Invariant string
	What      string
	Missing   string // id of an order that does not exist, or empty
}

// A Result is what the database alone shows of a sale's orders.
type Result struct {
	Orders   int // rows
	Captured int // payments recorded
	Refunds  int // of those, the ones to be refunded
	Expiring int // confirmed orders whose time to pay ended recently
	Breaches []Breach
}

// MaxBreaches is how many breaches of a kind a query looks for.
const MaxBreaches = 1000

// Queries find breaches: the fields of Breach. Each is one statement, and so one snapshot. $1 is the sale, $2 the maximum
// number of breaches.
var Queries = []string{
	`SELECT 'I10', 'order ' || o.order_id || ' is ' || o.status || ', and its units are on their way back', ''
	 FROM order_returns r JOIN orders o USING (order_id)
	 WHERE r.sale = $1 AND o.status NOT IN ('cancelled', 'expired', 'rejected')
	 LIMIT $2`,

	`SELECT 'I11', 'order ' || o.order_id || ' is ' || o.status || ', and ' || count(p.reference) || ' payments count for it', ''
	 FROM orders o LEFT JOIN payments p ON p.order_id = o.order_id AND p.action = 'none'
	 WHERE o.sale = $1 AND (o.status = 'paid' OR p.reference IS NOT NULL)
	 GROUP BY o.order_id
	 HAVING count(p.reference) <> CASE o.status WHEN 'paid' THEN 1 ELSE 0 END
	 LIMIT $2`,
}

// EventQueries find breaches that events show. Their further arguments are the ids of the sale's first and last order, or NULL if it has
// none: $3 and $4.
//
// Ids of orders grow with time, so the events between the first and the last order of a sale are a small part of all, and a
// coarse index of Postgres finds them; an index with an entry for every order would slow down every commit. Orders that are committed
// after the last one are left out, by that bound only: a generic plan estimates two bounds at 5 of 1,000 rows, and would compare each
// order with each event.
var EventQueries = []string{
	// Orders whose events do not lead to their status. Orders and events are not joined but grouped: before Postgres has statistics of a
	// new sale, it would compare each order with each event. The events of the orders found are listed apart: to sort those of every
	// order would take most of the time.
	`SELECT CASE WHEN count(*) FILTER (WHERE status IN ('cancelled', 'expired')) > 1 THEN 'I10' ELSE 'I9' END,
	        'order ' || order_id || ' is ' || max(now_is) || ', and its events say ' || coalesce((SELECT string_agg(s.status, ', ' ORDER BY s.seq)
	        FROM order_events s WHERE s.order_id = both_of.order_id AND s.action <> 'refund'), 'nothing'), ''
	 FROM (
	        SELECT order_id, status AS now_is, NULL AS seq, NULL AS status FROM orders WHERE sale = $1 AND order_id <= $4
	        UNION ALL
	        SELECT order_id, NULL, seq, status FROM order_events WHERE action <> 'refund' AND order_id BETWEEN $3 AND $4
	 ) both_of
	 GROUP BY order_id
	 HAVING max(now_is) IS NOT NULL AND NOT coalesce(CASE
	        WHEN max(now_is) IN ('confirmed', 'rejected') THEN count(seq) = 1 AND max(status) = max(now_is)
	        ELSE count(seq) = 2 AND max(status) FILTER (WHERE status <> 'confirmed') = max(now_is)
	             AND min(seq) FILTER (WHERE status = 'confirmed') < min(seq) FILTER (WHERE status <> 'confirmed') END, false)
	 LIMIT $2`,

	// Rows that refer to orders that do not exist. An event without an order belongs to no sale, and is found for all sales:
	// starting a little before the sale's first order, because that order may be the missing one. seq + 0 keeps Postgres from
	// searching the index of seq for the minimum.
	`SELECT 'I2', 'an event of order ' || order_id || ', which there is not', order_id || '' FROM order_events x
	 WHERE seq >= (SELECT coalesce(min(seq + 0), (SELECT max(seq) FROM order_events)) FROM order_events WHERE order_id BETWEEN $3 AND $4) - 1000
	   AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = x.order_id)
	 UNION SELECT 'I2', 'a payment of order ' || order_id || ', which there is not', order_id || '' FROM payments x
	 WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = x.order_id)
	 UNION SELECT 'I2', 'units come back from order ' || order_id || ', which there is not', order_id || '' FROM order_returns x
	 WHERE sale = $1 AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = x.order_id)
	 LIMIT $2`,

	// Payments and their events, grouped for the same reason.
	`SELECT 'I11', 'payment ' || reference || ' of order ' || order_id || CASE count(recorded) WHEN 0 THEN ' is in the feed and not recorded'
	        ELSE ' is recorded, and ' || count(seq) || ' times in the feed' END, ''
	 FROM (
	        SELECT order_id, reference, action, 1 AS recorded, NULL AS seq FROM payments WHERE order_id BETWEEN $3 AND $4
	        UNION ALL
	        SELECT order_id, reference, action, NULL, seq FROM order_events WHERE action <> '' AND order_id BETWEEN $3 AND $4
	 ) both_of
	 GROUP BY order_id, reference, action
	 HAVING (count(recorded) <> 1 OR count(seq) <> 1) AND EXISTS (SELECT 1 FROM orders o WHERE o.order_id = both_of.order_id AND o.sale = $1)
	 LIMIT $2`,
}
