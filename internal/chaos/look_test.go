package chaos

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/asynqkeys"
)

// breaches are the findings of one query to a database.
type breaches struct {
	Invariant string   `json:"invariant"`
	Title     string   `json:"title"`
	Count     int      `json:"count"`
	Examples  []string `json:"examples,omitempty"`
}

// wrong adds one finding.
func (b *breaches) wrong(format string, args ...any) {
	b.Count++
	if b.Count <= 5 {
		b.Examples = append(b.Examples, fmt.Sprintf(format, args...))
	}
}

// question is a query to Postgres that returns one row of text per breach.
type question struct {
	invariant, title, sql string
}

// questions are all of them. $1 is the orders that were answered with 202, $2 the crowd's prefix. A round has one sale.
var questions = []question{
	{"I1", "an order answered 202 that is neither a row nor a dead letter", `
		SELECT id::text FROM unnest($1::uuid[]) AS id
		WHERE NOT EXISTS (SELECT FROM orders WHERE order_id = id) AND NOT EXISTS (SELECT FROM dead_letters WHERE order_id = id)`},
	{"I2", "an order of an unknown buyer", `SELECT order_id || ' of ' || buyer FROM orders WHERE NOT starts_with(buyer, $2) AND NOT starts_with(buyer, '` + ourBuyers + `')
		AND sale <> '` + roomSale + `'`},
	{"I3", "a unit above the stock", `SELECT u.unit::text FROM order_units u JOIN items USING (sale, item) WHERE u.unit > stock`},
	{"I3", "live orders hold more than the stock", `
		SELECT sum(quantity) || ' of ' || stock FROM orders JOIN items USING (sale, item)
		WHERE status IN ('confirmed', 'paid') GROUP BY sale, item, stock HAVING sum(quantity) > stock`},
	{"I4", "a buyer above the quota", `
		SELECT buyer || ' holds ' || sum(quantity) FROM orders JOIN items USING (sale, item)
		WHERE status IN ('confirmed', 'paid') GROUP BY sale, item, buyer, quota_ever HAVING sum(quantity) > quota_ever`},
	{"I5", "a unit of an order that holds nothing", `
		SELECT u.unit || ' of ' || u.order_id FROM order_units u LEFT JOIN orders o USING (order_id)
		WHERE o.status IS NULL OR o.status NOT IN ('confirmed', 'paid') OR NOT u.unit = ANY (o.units)`},
	{"I5", "a live order that does not own its units", `
		SELECT order_id || ' owns ' || (SELECT count(*) FROM order_units u WHERE u.order_id = o.order_id) || ' of ' || quantity
		FROM orders o WHERE status IN ('confirmed', 'paid')
		AND quantity <> (SELECT count(*) FROM order_units u WHERE u.order_id = o.order_id AND u.sale = o.sale AND u.item = o.item)`},
	{"I9", "an order whose events do not begin with its commit", `
		SELECT order_id || ': ' || coalesce((array_agg(e.status ORDER BY seq))[1], 'none')
		FROM orders LEFT JOIN order_events e USING (order_id)
		GROUP BY order_id HAVING coalesce((array_agg(e.status ORDER BY seq))[1], '') NOT IN ('confirmed', 'rejected')`},
	{"I9", "an order with a status twice, or one after its end", `
		SELECT order_id || ': ' || string_agg(status, ' ' ORDER BY seq) FROM order_events WHERE action <> 'refund' GROUP BY order_id
		HAVING count(*) FILTER (WHERE status IN ('confirmed', 'rejected')) > 1 OR count(*) FILTER (WHERE status IN ('paid', 'cancelled', 'expired')) > 1
		OR bool_or(status = 'rejected') AND count(*) > 1`},
	{"I9", "an order whose last event is another status", `
		SELECT order_id || ' is ' || o.status || ', its last event ' || (array_agg(e.status ORDER BY seq DESC))[1]
		FROM orders o JOIN order_events e USING (order_id) WHERE e.action <> 'refund'
		GROUP BY order_id, o.status HAVING (array_agg(e.status ORDER BY seq DESC))[1] <> o.status`},
	{"I9", "an event of an order that does not exist", `SELECT order_id || ' ' || status FROM order_events e WHERE NOT EXISTS (SELECT FROM orders o WHERE o.order_id = e.order_id)`},
	{"I10", "units not yet returned to Redis", `SELECT order_id || ' ' || units::text FROM order_returns`},
	{"I11", "a paid order without exactly one payment", `
		SELECT order_id || ' has ' || count(p.reference) FROM orders LEFT JOIN (SELECT * FROM payments WHERE action = 'none') p USING (order_id)
		WHERE status = 'paid' GROUP BY order_id HAVING count(p.reference) <> 1`},
	{"I11", "a payment that paid no order", `
		SELECT reference || ' of ' || p.order_id FROM payments p LEFT JOIN orders o USING (order_id) WHERE p.action = 'none' AND o.status IS DISTINCT FROM 'paid'`},
	{"I11", "a payment that is not exactly one event", `
		SELECT p.reference || ' is ' || count(e.seq) FROM payments p
		LEFT JOIN order_events e ON e.reference = p.reference AND e.order_id = p.order_id AND e.action = p.action
		GROUP BY p.reference HAVING count(e.seq) <> 1`},
	{"I13", "an order from outside the hours", `
		SELECT order_id || ' at ' || accepted_at FROM orders JOIN sales USING (sale) WHERE accepted_at < starts_at OR accepted_at >= ends_at`},
	{"I14", "an order neither paid nor ended", `
		SELECT order_id || ' was to be paid before ' || pay_before FROM orders WHERE status = 'confirmed' AND pay_before < now() - interval '10 s'`},
	{"I14", "a dead letter", `SELECT order_id || ': ' || reason FROM dead_letters`},
}

// look queries both databases for breaches, without the product's code. It also returns entries without breaches.
func (c *cluster) look(ctx context.Context, accepted []string, prefix string) (all []breaches, err error) {
	for _, q := range questions {
		// The CTE uses both arguments, because Postgres must know their types.
		rows, err := c.pool.Query(ctx, `WITH given AS (SELECT $1::uuid[] AS accepted, $2::text AS prefix) SELECT wrong.text FROM (`+q.sql+`) AS wrong (text)`, accepted, prefix)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", q.invariant, q.title, err)
		}
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", q.invariant, q.title, err)
		}
		all = append(all, breaches{q.invariant, q.title, len(found), found[:min(len(found), 5)]})
	}
	items, err := c.lookAtItems(ctx)
	if err != nil {
		return nil, err
	}
	queues, err := c.lookAtQueues(ctx)
	return slices.Concat(all, items, []breaches{queues}), err
}

// unitNowhere is the title of the finding of units that can never be sold.
const unitNowhere = "a unit that is nowhere"

// lookAtItems checks that each unit that Redis ever handed out is in exactly one place: free in Redis or sold in Postgres, and that
// all keys of every item are whole.
func (c *cluster) lookAtItems(ctx context.Context) ([]breaches, error) {
	var epoch int64
	if err := c.pool.QueryRow(ctx, `SELECT epoch FROM sales WHERE sale = $1`, sale).Scan(&epoch); err != nil {
		return nil, err
	}
	rows, err := c.pool.Query(ctx, `
		SELECT item, coalesce(array_agg(unit) FILTER (WHERE unit IS NOT NULL), '{}')
		FROM items LEFT JOIN order_units USING (sale, item) WHERE sale = $1 GROUP BY item`, sale)
	if err != nil {
		return nil, err
	}
	type stock struct {
		Item string
		Sold []int
	}
	stocks, err := pgx.CollectRows(rows, pgx.RowToStructByPos[stock])
	if err != nil {
		return nil, err
	}
	rdb := c.rdb()
	defer rdb.Close()
	whole, nowhere, twice := breaches{Invariant: "I25", Title: "a key that is not whole"}, breaches{Invariant: "I6", Title: unitNowhere},
		breaches{Invariant: "I6", Title: "a unit in two places, or an order still under way"}
	for _, s := range stocks {
		if err := lookAtKeys(ctx, rdb, s.Item, epoch, &whole); err != nil {
			return nil, fmt.Errorf("keys of item %s in epoch %d: %w", s.Item, epoch, err)
		}
		if err := lookAtStock(ctx, rdb, s.Item, epoch, s.Sold, &nowhere, &twice); err != nil && whole.Count == 0 {
			return nil, fmt.Errorf("item %s in epoch %d: %w", s.Item, epoch, err)
		}
	}
	slices.Sort(nowhere.Examples)
	slices.Sort(twice.Examples)
	return []breaches{whole, nowhere, twice}, nil
}

func lookAtStock(ctx context.Context, rdb redis.UniversalClient, name string, epoch int64, sold []int, nowhere, twice *breaches) error {
	next, err := rdb.HGet(ctx, itemKey(name, epoch, "item"), "next").Int()
	if err != nil {
		return fmt.Errorf("next: %w", err)
	}
	free, err := rdb.SMembers(ctx, itemKey(name, epoch, "returned")).Result()
	if err != nil {
		return err
	}
	places := make(map[int][]string)
	for _, u := range sold {
		places[u] = append(places[u], "sold")
	}
	for _, text := range free {
		if text == sentinel {
			continue
		}
		u, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		places[u] = append(places[u], "free")
	}
	for u := 1; u <= next; u++ {
		switch len(places[u]) {
		case 0:
			nowhere.wrong("unit %d of %s", u, name)
		case 1:
		default:
			twice.wrong("unit %d of %s is in %v", u, name, places[u])
		}
		delete(places, u)
	}
	for u, at := range places {
		twice.wrong("unit %d of %s is %v but was never handed out", u, name, at)
	}
	for _, key := range []string{"pending", "outbox"} {
		kind, n := rdb.HLen, int64(0)
		if key == "outbox" {
			kind = rdb.ZCard
		}
		if n, err = kind(ctx, itemKey(name, epoch, key)).Result(); err != nil {
			return err
		} else if n > 1 { // the sentinel
			twice.wrong("%d orders of %s are %s", n-1, name, key)
		}
	}
	return nil
}

// lookAtQueues counts the tasks that are left in Asynq, in any state.
func (c *cluster) lookAtQueues(ctx context.Context) (breaches, error) {
	b := breaches{Invariant: "I17", Title: "a task left in a queue"}
	rdb := c.rdb()
	defer rdb.Close()
	keys, err := keysOf(ctx, rdb, asynqkeys.Key(space+"-*", "*"))
	if err != nil {
		return b, err
	}
	counts := make(map[string]map[string]*redis.IntCmd)
	if _, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			_, queue, _ := strings.Cut(key, "{")
			queue, _, _ = strings.Cut(queue, "}")
			if counts[queue] == nil {
				counts[queue] = asynqkeys.Count(ctx, p, queue)
			}
		}
		return nil
	}); err != nil {
		return b, err
	}
	for queue, states := range counts {
		for state, n := range states {
			if n.Val() > 0 {
				b.Count += int(n.Val())
				b.Examples = append(b.Examples, fmt.Sprintf("%d in %s", n.Val(), asynqkeys.Key(queue, state)))
			}
		}
	}
	slices.Sort(b.Examples)
	return b, nil
}

// itemKey returns a key of an item in one epoch.
func itemKey(name string, epoch int64, key string) string {
	return space + ":{" + sale + ":" + name + "}:" + strconv.FormatInt(epoch, 10) + ":" + key
}
