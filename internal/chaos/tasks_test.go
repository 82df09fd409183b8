package chaos

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/asynqkeys"
	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/orders"
)

// repeated is the number of tasks that a fault repeats.
const repeated = 200

// repeatTasks enqueues tasks of orders a second time, under new ids: of pending orders, and of orders in the database, whatever
// their status.
func (c *cluster) repeatTasks(ctx context.Context, delay time.Duration) error {
	rdb := c.rdb()
	defer rdb.Close()
	payloads, err := pendingRecords(ctx, rdb)
	if err != nil {
		return err
	}
	committed, err := c.committedRecords(ctx)
	if err != nil {
		return err
	}
	payloads = append(payloads, committed...)
	if len(payloads) == 0 {
		return errNothingThere
	}
	client := asynq.NewClientFromRedisClient(rdb)
	payloads = payloads[:min(len(payloads), repeated)]
	// Half of them alone, each of the others together with the first.
	for i, payload := range payloads {
		list := slices.Concat([]byte("["), payload, []byte("]"))
		if i%2 == 1 {
			list = slices.Concat([]byte("["), payloads[0], []byte(","), payload, []byte("]"))
		}
		if _, err := client.EnqueueContext(ctx, asynq.NewTask("orders:commit", list), asynq.Queue(space+"-accepted-0"),
			asynq.MaxRetry(1<<30), asynq.Timeout(time.Minute), asynq.ProcessIn(delay)); err != nil {
			return err
		}
	}
	return nil
}

// Decisions and queues may be on separate Redis servers, each of which may lose its memory alone.
const (
	ofQueues    = "asynq:*"
	ofDecisions = space + ":*"
)

// forget deletes the matching keys from Redis atomically.
func (c *cluster) forget(ctx context.Context, keys string) error {
	rdb := c.rdb()
	defer rdb.Close()
	return redisscript.Repeatable("chaos forget", `
		local keys = redis.call('KEYS', ARGV[1])
		for _, key in ipairs(keys) do redis.call('DEL', key) end
		return #keys`).Run(ctx, rdb, nil, keys).Err()
}

// pendingRecords returns the uncommitted reservations in Redis, of all epochs.
func pendingRecords(ctx context.Context, rdb redis.UniversalClient) (records [][]byte, err error) {
	keys, err := rdb.Keys(ctx, space+":{*}:*:pending").Result()
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		values, err := rdb.HVals(ctx, key).Result()
		if err != nil {
			return nil, err
		}
		for _, v := range values {
			if v != "" { // of the sentinel
				records = append(records, []byte(v))
			}
		}
	}
	return records, nil
}

// committedRecords returns the payloads that the tasks of some orders in the database must have had.
func (c *cluster) committedRecords(ctx context.Context) (records [][]byte, err error) {
	rows, err := c.pool.Query(ctx, `
		SELECT order_id, epoch, sale, item, buyer, buyer_hash, coalesce(key_hash, ''), quantity, units, accepted_at
		FROM orders WHERE status <> 'rejected' ORDER BY hashtext(order_id::text) LIMIT $1`, repeated)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var (
			r  orders.Reservation
			id [16]byte
			at time.Time
		)
		if err := rows.Scan(&id, &r.Epoch, &r.Sale, &r.Item, &r.Buyer, &r.BuyerHash, &r.KeyHash, &r.Quantity, &r.Units, &at); err != nil {
			return nil, err
		}
		r.ID, r.AcceptedMS = id, at.UnixMilli()
		record, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		records = append(records, record)
	}
	return records, rows.Err()
}

// releaseAbandonedTasks expires the leases of tasks whose worker is dead, and returns their number. A worker extends its lease
// of 30 s every 5 s, so a lease that was not extended for 15 s belongs to a dead worker. Asynq only hands out such tasks when a
// worker starts, and only if their lease ended more than 30 s ago.
func (c *cluster) releaseAbandonedTasks(ctx context.Context) (n int, err error) {
	now := time.Now()
	ended := now.Add(-time.Minute)
	if n, err = c.moveTasks(ctx, "lease", time.Time{}, now.Add(15*time.Second), ended); err != nil || !c.clocksWrong {
		return n, err
	}
	// A worker whose clock was ahead leases tasks for hours, and postpones them by as much.
	ahead, err := c.moveTasks(ctx, "lease", now.Add(time.Minute), time.Time{}, ended)
	for _, state := range []string{"retry", "scheduled"} {
		if err == nil {
			_, err = c.moveTasks(ctx, state, now.Add(10*time.Minute), time.Time{}, now)
		}
	}
	return n + ahead, err
}

// moveTasks sets the time of the tasks of a state whose time is between two others, and returns their number. The zero time is no limit.
func (c *cluster) moveTasks(ctx context.Context, state string, from, until, to time.Time) (n int, err error) {
	rdb := c.rdb()
	defer rdb.Close()
	keys, err := keysOf(ctx, rdb, asynqkeys.Key(space+"-*", state))
	if err != nil {
		return 0, err
	}
	limit := func(at time.Time, none string) string {
		if at.IsZero() {
			return none
		}
		return strconv.FormatInt(at.Unix(), 10)
	}
	for _, key := range keys {
		tasks, err := rdb.ZRangeArgs(ctx, redis.ZRangeArgs{Key: key, Start: limit(from, "-inf"), Stop: limit(until, "+inf"), ByScore: true}).Result()
		if err != nil {
			return n, err
		}
		for _, task := range tasks {
			if err := rdb.ZAddXX(ctx, key, redis.Z{Score: float64(to.Unix()), Member: task}).Err(); err != nil {
				return n, err
			}
		}
		n += len(tasks)
	}
	return n, nil
}
