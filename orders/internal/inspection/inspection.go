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
	// Orders whose events do not lead to their status. The events of the orders found are listed apart: to sort those of every order
	// would take most of the time.
	`SELECT CASE WHEN count(*) FILTER (WHERE e.status IN ('cancelled', 'expired')) > 1 THEN 'I10' ELSE 'I9' END,
	        'order ' || o.order_id || ' is ' || o.status || ', and its events say ' || coalesce((SELECT string_agg(s.status, ', ' ORDER BY s.seq)
	        FROM order_events s WHERE s.order_id = o.order_id AND s.action <> 'refund'), 'nothing'), ''
	 FROM orders o LEFT JOIN order_events e ON e.order_id = o.order_id AND e.action <> 'refund' AND e.order_id BETWEEN $3 AND $4
	 WHERE o.sale = $1 AND o.order_id <= $4
	 GROUP BY o.order_id
	 HAVING NOT coalesce(CASE WHEN o.status IN ('confirmed', 'rejected') THEN count(e.seq) = 1 AND count(*) FILTER (WHERE e.status = o.status) = 1
	        ELSE count(e.seq) = 2 AND min(e.seq) FILTER (WHERE e.status = 'confirmed') < min(e.seq) FILTER (WHERE e.status = o.status) END, false)
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

	// Payments and their events.
	`SELECT 'I11', 'payment ' || p.reference || ' of order ' || p.order_id || ' is recorded, and ' || count(e.seq) || ' times in the feed', ''
	 FROM payments p JOIN orders o ON o.order_id = p.order_id
	 LEFT JOIN order_events e ON e.order_id = p.order_id AND e.reference = p.reference AND e.action = p.action AND e.order_id BETWEEN $3 AND $4
	 WHERE o.sale = $1 AND o.order_id <= $4
	 GROUP BY p.order_id, p.reference
	 HAVING count(e.seq) <> 1
	 UNION ALL SELECT 'I11', 'payment ' || e.reference || ' of order ' || e.order_id || ' is in the feed and not recorded', ''
	 FROM order_events e JOIN orders o ON o.order_id = e.order_id
	 LEFT JOIN payments p ON p.reference = e.reference AND p.order_id = e.order_id AND p.action = e.action
	 WHERE o.sale = $1 AND e.action <> '' AND e.order_id BETWEEN $3 AND $4 AND p.reference IS NULL
	 LIMIT $2`,
}
