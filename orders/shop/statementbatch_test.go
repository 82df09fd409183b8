package shop_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/orders"
)

// TestOrdersThatShareAScriptAreDecidedOneByOne: a batch gives the same replies and writes as one call per order.
func TestOrdersThatShareAScriptAreDecidedOneByOne(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	const stock, sold, returned = 9, 3, 2
	narrow := func(s *orders.Sale) {
		s.Items[0].Stock, s.Items[0].QuotaPerBuyer, s.Items[0].InFlightMax = stock, 3, 4
	}
	sales := [2]orders.Sale{in.sale(p, narrow), in.sale(p, narrow)}
	accepted := regexp.MustCompile(`,"t":\d+|"s":"[^"]+"`)
	at := time.Now()
	rapid.Check(t, func(rt *rapid.T) {
		list := make([]orders.Reservation, rapid.IntRange(1, 8).Draw(rt, "orders"))
		for i := range list {
			list[i] = orders.Reservation{
				ID: p.NewID(at, i+1), Epoch: 1, Item: "shoe",
				BuyerHash: rapid.SampledFrom([]string{"buyer-1-------------22", "buyer-2-------------22", "buyer-3-------------22"}).Draw(rt, "buyer"),
				KeyHash:   rapid.SampledFrom([]string{"", "k1", "k2"}).Draw(rt, "key"),
				Quantity:  rapid.IntRange(1, 3).Draw(rt, "quantity"),
			}
		}
		var said, left [2]string
		for i, sale := range sales {
			prefix := in.namespace + ":{" + sale.ID + ":shoe}:1:"
			_, err := in.rdb.TxPipelined(t.Context(), func(tx redis.Pipeliner) error {
				for _, key := range []string{"returned", "pending", "outbox", "keys", "buyers", "holders"} {
					tx.Del(t.Context(), prefix+key)
				}
				for _, key := range []string{"pending", "keys", "buyers"} {
					tx.HSet(t.Context(), prefix+key, "-", "")
				}
				tx.ZAdd(t.Context(), prefix+"outbox", redis.Z{Score: math.Inf(1), Member: "-"})
				tx.RPush(t.Context(), prefix+"holders", "-")
				tx.SAdd(t.Context(), prefix+"returned", "-", returned)
				tx.HSet(t.Context(), prefix+"item", "next", sold)
				return nil
			})
			must(t, err)
			for j := range list {
				list[j].Sale = sale.ID
			}
			var replies [][]any
			if i == 0 {
				all, err := p.RunReserve(t.Context(), list...)
				must(t, err)
				replies = all
			} else {
				for _, r := range list {
					one, err := p.RunReserve(t.Context(), r)
					must(t, err)
					replies = append(replies, one...)
				}
			}
			said[i] = accepted.ReplaceAllString(fmt.Sprint(replies), "")
			outbox := in.rdb.ZRange(t.Context(), prefix+"outbox", 0, -1).Val()
			slices.Sort(outbox) // they are sorted by time
			left[i] = accepted.ReplaceAllString(fmt.Sprint(
				in.rdb.HGet(t.Context(), prefix+"item", "next").Val(), in.rdb.SCard(t.Context(), prefix+"returned").Val(),
				in.rdb.HGetAll(t.Context(), prefix+"pending").Val(), outbox,
				in.rdb.HGetAll(t.Context(), prefix+"keys").Val(), in.rdb.HGetAll(t.Context(), prefix+"buyers").Val(),
				in.rdb.LRange(t.Context(), prefix+"holders", 0, -1).Val(),
			), "")
		}
		if said[0] != said[1] || left[0] != left[1] {
			rt.Errorf("together %s\n%s\none by one %s\n%s", said[0], left[0], said[1], left[1])
		}
	})
}

// TestWhatIsRememberedIsWhatRedisHas: a process builds its own record of an order, and a recovery may use either record.
func TestWhatIsRememberedIsWhatRedisHas(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].QuotaPerBuyer = 3 })
	returned := in.namespace + ":{" + sale.ID + ":shoe}:1:returned"
	must(t, in.rdb.SAdd(t.Context(), returned, 90).Err()) // one of the units was sold before
	in.order(p, sale.ID, "ann \"quoted\"", "k<1>", 3)
	in.order(p, sale.ID, "bob", "k2", 1)
	records, err := in.rdb.HGetAll(t.Context(), in.namespace+":{"+sale.ID+":shoe}:1:pending").Result()
	must(t, err)
	delete(records, "-")
	if got := p.Remembered(); len(got) != 2 || !maps.Equal(got, records) {
		t.Errorf("remembered %v\nin Redis %v", got, records)
	}
}

// TestOrdersOfATask: an order that cannot be committed does not delay the others, and is retried alone.
func TestOrdersOfATask(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	sale, other := in.sale(p), in.sale(p)
	p.follows() // no process recovers a sale
	good, bad := in.order(p, sale.ID, "good", "", 1).Order.ID, in.order(p, other.ID, "bad", "", 1).Order.ID
	eventually(t, "both are queued", func() bool { return in.queued() == 2 })
	var payloads [][]byte
	for _, task := range in.tasks() {
		payloads = append(payloads, task.Payload[1:len(task.Payload)-1])
	}
	in.deleteTasks()
	both := bytes.Join(payloads, []byte(",")) // one task or two
	damaged := slices.Concat([]byte(`[{"id":"nonsense"},`), both, []byte(","), both, []byte("]"))
	// The second sale is in a later epoch than its order, and not in Redis in that epoch: the order cannot be reserved again.
	_, err := in.pool.Exec(t.Context(), `UPDATE sales SET epoch = 2, epoch_floor = 2 WHERE sale = $1`, other.ID)
	must(t, err)
	_, err = asynq.NewClientFromRedisClient(p.queue).EnqueueContext(t.Context(), asynq.NewTask("orders:commit", damaged), asynq.Queue(in.namespace+"-accepted-0"))
	must(t, err)
	in.work(p)
	if o := in.settled(p, good); o.Status != orders.StatusConfirmed {
		t.Errorf("%+v", o)
	}
	inspector := asynq.NewInspectorFromRedisClient(in.rdb)
	eventually(t, "the other one is tried again by itself", func() bool {
		scheduled, err := inspector.ListScheduledTasks(in.namespace + "-accepted-0")
		must(t, err)
		retried, err := inspector.ListRetryTasks(in.namespace + "-accepted-0")
		must(t, err)
		for _, task := range append(scheduled, retried...) {
			var list []orders.Reservation
			must(t, json.Unmarshal(task.Payload, &list))
			if !slices.ContainsFunc(list, func(r orders.Reservation) bool { return r.ID != bad }) {
				return true
			}
		}
		return false
	})
}

// TestAnIdleWorkerSeldomLooks: it polls seldom while no task comes, and once or twice for each task.
func TestAnIdleWorkerSeldomLooks(t *testing.T) {
	t.Parallel()
	in := install(t)
	p, worker := in.start(), in.start()
	sale := in.sale(p)
	var looks atomic.Int64
	worker.queue.AddHook(around{word: "asynq:{" + in.namespace + "-accepted-0}:pending", before: func() { looks.Add(1) }})
	in.work(worker)
	eventually(t, "it is idle", func() bool {
		before := looks.Load()
		time.Sleep(3 * time.Second / 2)
		return looks.Load()-before <= 2
	})
	began, before := time.Now(), looks.Load()
	for i := range 10 {
		in.settled(p, in.order(p, sale.ID, fmt.Sprint("u", i), "", 1).Order.ID)
	}
	if n, most := looks.Load()-before, 10*2+int64(time.Since(began)/time.Second); n > most {
		t.Errorf("it looked %d times for 10 tasks, %d are enough", n, most)
	}
}
