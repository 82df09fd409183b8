package shop_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
)

// largest is the memory by which a process may grow while it reads a sale of any size.
const largest = 64 << 20

// TestNoReaderHoldsASale measures the memory of everything that reads the orders of a sale.
func TestNoReaderHoldsASale(t *testing.T) {
	in := installIn(t, testenv.StartRedis(t).URL(), testenv.StartPostgres(t).URL())
	in.timeout = redisTimeout
	in.readLarge(testenv.Size(60_000, 1_000_000), func(name string, bytes uint64) {
		t.Logf("%s: %.1f MB", name, float64(bytes)/1e6)
		if bytes > largest {
			t.Errorf("%s: %.1f MB", name, float64(bytes)/1e6)
		}
	})
}

// BenchmarkReaders reports how many bytes each reader of a sale takes, by the number of its orders.
func BenchmarkReaders(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			in := installIn(b, testenv.StartRedis(b).URL(), testenv.StartPostgres(b).URL())
			in.timeout = redisTimeout
			for range b.N {
				in.readLarge(n, func(name string, bytes uint64) { b.ReportMetric(float64(bytes)/1e6, name+"-MB") })
			}
		})
	}
}

// readLarge makes a process read a sale of n orders in every way, and reports by how much each way raised its heap.
func (in *installation) readLarge(n int, report func(name string, bytes uint64)) {
	t := in.t
	p := in.start()
	defer p.stop()
	sale := in.large(p, n)
	report("recovery", raised(func() { in.rebuilt(sale.ID, n) }))
	report("verification", raised(func() { in.verified(p, sale.ID) }))
	keys := in.key(sale.ID, "keys")
	must(t, in.rdb.Del(t.Context(), keys).Err())
	must(t, in.rdb.HSet(t.Context(), keys, "-", "").Err())
	report("verification of a damaged sale", raised(func() {
		if c := in.check(p, sale.ID, "I7"); c.Breaches == 0 {
			t.Error("no key is missed")
		}
	}))
	in.rebuilt(sale.ID, n)
	for range 4 { // Postgres has planned the queries for any sale by then
		in.verified(p, sale.ID)
	}
	report("snapshot", raised(func() {
		in.answered("the sale's status", func() error {
			_, err := p.Sale(t.Context(), sale.ID)
			return err
		})
	}))
	report("totals", raised(func() {
		in.answered("the sale's totals", func() error {
			_, err := p.Totals(t.Context(), sale.ID)
			return err
		})
	}))
	report("export", raised(func() {
		for after, read := (orders.ID{}), 0; ; {
			var list []orders.Order
			in.answered("a page of orders", func() (err error) {
				list, err = p.Orders(t.Context(), orders.Query{Sale: sale.ID, Viewer: orders.Viewer{All: true}, After: after, Limit: 1000})
				return err
			})
			if read += len(list); len(list) == 0 {
				if read != n {
					t.Errorf("%d orders of %d", read, n)
				}
				return
			}
			after = list[len(list)-1].ID
		}
	}))
}

// key returns a key of the sale's only item in the latest epoch.
func (in *installation) key(sale, name string) string {
	in.t.Helper()
	keys, err := in.rdb.Keys(in.t.Context(), in.namespace+":{"+sale+":shoe}:*:"+name).Result()
	must(in.t, err)
	if len(keys) != 1 {
		in.t.Fatalf("keys %v", keys)
	}
	return keys[0]
}

// rebuilt makes Redis lose the item of a sale of n orders, and waits until it is rebuilt.
func (in *installation) rebuilt(sale string, n int) {
	in.t.Helper()
	must(in.t, in.rdb.Del(in.t.Context(), in.key(sale, "item")).Err())
	eventually(in.t, "the sale is rebuilt", func() bool {
		items, err := in.rdb.Keys(in.t.Context(), in.namespace+":{"+sale+":shoe}:*:item").Result()
		must(in.t, err)
		buyers, err := in.rdb.Keys(in.t.Context(), in.namespace+":{"+sale+":shoe}:*:buyers").Result()
		must(in.t, err)
		if len(items) != 1 || len(buyers) != 1 { // those of the epoch before are dropped at the end
			return false
		}
		count, err := in.rdb.HLen(in.t.Context(), buyers[0]).Result()
		must(in.t, err)
		return count == int64(n)/2+1
	})
}

// large defines a sale, and stores n orders of it in the database. Each buyer has an early and a late one.
func (in *installation) large(p *process, n int) orders.Sale {
	in.t.Helper()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock, s.Items[0].QuotaPerBuyer = n+10, 2 })
	_, err := in.pool.Exec(in.t.Context(), `
		WITH made AS (
			SELECT n AS unit, overlay(overlay(overlay(lpad(to_hex(n), 32, '0') placing '8' from 13) placing '8' from 17) placing '01' from 1)::uuid AS id,
			       substr(translate(encode(sha256((n % ($2 / 2))::text::bytea), 'base64'), '+/', '-_'), 1, 22) AS buyer
			FROM generate_series(1, $2) n
		), o AS (
			INSERT INTO orders (order_id, sale, item, buyer, buyer_hash, key_hash, quantity, units, status, epoch, accepted_at, confirmed_at)
			SELECT id, $1, 'shoe', 'user-' || unit, buyer, lpad(unit::text, 22, '0'), 1, ARRAY[unit], 'confirmed', 1, now(), now() FROM made
		), u AS (
			INSERT INTO order_units SELECT $1, 'shoe', unit, id FROM made
		)
		INSERT INTO order_events (order_id, status) SELECT id, 'confirmed' FROM made`, sale.ID, n)
	must(in.t, err)
	_, err = in.pool.Exec(in.t.Context(), `VACUUM ANALYZE`)
	must(in.t, err)
	return sale
}

// raised returns by how many bytes fn raised the heap.
func raised(fn func()) uint64 {
	heap := func() uint64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	runtime.GC()
	before := heap()
	ctx, stop := context.WithCancel(context.Background())
	highest := make(chan uint64)
	go func() {
		most := before
		for ctx.Err() == nil {
			most = max(most, heap())
			time.Sleep(5 * time.Millisecond)
		}
		highest <- most
	}()
	fn()
	stop()
	return <-highest - before
}

// TestVerificationMemoryFollowsOrders: of a million units of which few are sold, a verification takes memory for these. It is not parallel,
// because it counts what the whole process allocates.
func TestVerificationMemoryFollowsOrders(t *testing.T) {
	const most = 10 << 20 // with the race detector 6 MB; a sum for each unit and each buyer would take 16 MB
	in := installIn(t, testenv.StartRedis(t).URL(), testenv.Postgres(t))
	p := in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 1_000_000 })
	placeMany(t, p, sale.ID, 100)
	least := uint64(math.MaxUint64) // of several, for another loop may allocate meanwhile
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		in.verified(p, sale.ID)
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	if least > most {
		t.Errorf("a verification of 100 orders allocated %.1f MB, want at most %.1f", float64(least)/1e6, most/1e6)
	}
}
