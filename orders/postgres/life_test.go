package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/postgres"
)

// TestExpiryLeavesOrdersToWhoeverHoldsThem locks an order as a payment does.
func TestExpiryLeavesOrdersToWhoeverHoldsThem(t *testing.T) {
	pool := open(t)
	s := postgres.New(pool)
	held := reservation(t, s)
	other := held
	other.ID[15]++
	other.BuyerHash, other.Units = "other", []int{2}
	_, err := s.Commit(t.Context(), []orders.Reservation{held, other})
	must(t, err)
	_, err = pool.Exec(t.Context(), `UPDATE orders SET pay_before = now() - interval '1 second'`)
	must(t, err)
	tx := begin(t, pool)
	_, err = tx.Exec(t.Context(), `SELECT 1 FROM orders WHERE order_id = $1 FOR UPDATE`, [16]byte(held.ID))
	must(t, err)
	ended, err := s.Expire(t.Context(), 10) // and does not wait
	must(t, err)
	if len(ended) != 1 || ended[0].ID != other.ID {
		t.Errorf("expired %+v, want order %s", ended, other.ID)
	}
	must(t, tx.Rollback(t.Context()))
	ended, err = s.Expire(t.Context(), 10)
	must(t, err)
	if len(ended) != 1 || ended[0].ID != held.ID {
		t.Errorf("expired %+v, want order %s", ended, held.ID)
	}
}

// TestAPaymentThatComesWithTheCommit captures while the order is being committed: the first statement finds no order to pay,
// the second finds it confirmed.
func TestAPaymentThatComesWithTheCommit(t *testing.T) {
	pool := open(t)
	s := postgres.New(pool)
	const rounds = 200
	first := reservation(t, s)
	for i := range rounds {
		r := first
		r.ID[14], r.ID[15] = byte(i>>8), byte(i)
		r.BuyerHash, r.Units = fmt.Sprint("buyer-", i), []int{i + 1}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := s.Commit(t.Context(), []orders.Reservation{r}); err != nil {
				t.Error(err)
			}
		})
		var p orders.Payment
		for { // the provider repeats it until the order exists
			var err error
			if p, err = s.Capture(t.Context(), r.ID, fmt.Sprint("reference-", i)); err == nil {
				break
			}
		}
		wg.Wait()
		if p.Action != orders.ActionNone || p.Status != orders.StatusPaid {
			t.Fatalf("round %d: %+v, want it paid", i, p)
		}
	}
}

// TestACaptureThatIsNotRecorded: another payment stands in the way, of which Capture knows nothing. It must not report success.
func TestACaptureThatIsNotRecorded(t *testing.T) {
	pool := open(t)
	s := postgres.New(pool)
	r := reservation(t, s)
	_, err := s.Commit(t.Context(), []orders.Reservation{r})
	must(t, err)
	_, err = pool.Exec(t.Context(), `INSERT INTO payments (reference, order_id, action) VALUES ('forged', $1, 'none')`, [16]byte(r.ID))
	must(t, err)
	if p, err := s.Capture(t.Context(), r.ID, "other"); !errors.Is(err, orders.ErrUnavailable) {
		t.Errorf("%+v, %v", p, err)
	}
}

// event takes the next number of the feed, for an existing order.
func event(t *testing.T, tx pgx.Tx, id orders.ID) (seq int64) {
	t.Helper()
	must(t, tx.QueryRow(t.Context(), `INSERT INTO order_events (order_id, status) VALUES ($1, 'confirmed') RETURNING seq`, [16]byte(id)).Scan(&seq))
	return seq
}

// begin starts a transaction with a transaction id, like one that has locked a row.
func begin(t *testing.T, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }) // before the pool closes
	_, err = tx.Exec(t.Context(), `SELECT pg_current_xact_id()`)
	must(t, err)
	return tx
}

// TestTheFeedWaitsForNumbersThatCommitLate commits transactions in an order that differs from that of their numbers, and takes
// numbers in an order that differs from that of their starts.
func TestTheFeedWaitsForNumbersThatCommitLate(t *testing.T) {
	for name, youngerFirst := range map[string]bool{"the older has the smaller number": false, "the younger has the smaller number": true} {
		t.Run(name, func(t *testing.T) {
			pool := open(t)
			s := postgres.New(pool)
			r := reservation(t, s)
			_, err := s.Commit(t.Context(), []orders.Reservation{r})
			must(t, err)
			slow := begin(t, pool)
			fast := begin(t, pool)
			if youngerFirst {
				slow, fast = fast, slow
			}
			late := event(t, slow, r.ID)
			early := event(t, fast, r.ID)
			must(t, fast.Commit(t.Context()))
			after := int64(0)
			for range 5 { // it polls for a while
				list, err := s.Events(t.Context(), after, 10)
				must(t, err)
				for _, e := range list {
					if after = e.Seq; after > late {
						t.Fatalf("event %d was said while %d was not decided", after, late)
					}
				}
			}
			must(t, slow.Commit(t.Context()))
			eventually(t, "both are said, in order", func() bool {
				list, err := s.Events(t.Context(), after, 10)
				must(t, err)
				for _, e := range list {
					if after < late && e.Seq > late {
						t.Fatalf("event %d was skipped", late)
					}
					after = e.Seq
				}
				return after == early
			})
		})
	}
}

// TestTheFeedSaysEverythingOnce has many slow concurrent writers, some of which roll back, while one transaction stays open,
// and two followers.
func TestTheFeedSaysEverythingOnce(t *testing.T) {
	const writers, each = 8, 60
	pool := open(t)
	s := postgres.New(pool)
	r := reservation(t, s)
	_, err := s.Commit(t.Context(), []orders.Reservation{r})
	must(t, err)
	var (
		mu      sync.Mutex
		written []int64 // committed numbers
		wg      sync.WaitGroup
		over    = make(chan struct{})
	)
	write := func(random *rand.Rand) error {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
		if _, err := tx.Exec(t.Context(), `SELECT pg_current_xact_id(), pg_sleep($1)`, float64(random.IntN(4))/1000); err != nil {
			return err
		}
		var mine []int64
		for range 1 + random.IntN(3) {
			var seq int64
			if err := tx.QueryRow(t.Context(), `INSERT INTO order_events (order_id, status) VALUES ($1, 'confirmed') RETURNING seq`, [16]byte(r.ID)).Scan(&seq); err != nil {
				return err
			}
			mine = append(mine, seq)
		}
		if _, err := tx.Exec(t.Context(), `SELECT pg_sleep($1)`, float64(random.IntN(4))/1000); err != nil {
			return err
		}
		if random.IntN(4) == 0 {
			return nil // rolled back
		}
		mu.Lock()
		written = append(written, mine...)
		mu.Unlock()
		return tx.Commit(t.Context())
	}
	open := begin(t, pool)
	held := event(t, open, r.ID)
	var followed [2][]int64
	for i := range followed {
		store := s
		if i > 0 {
			store = postgres.New(pool) // another process
		}
		wg.Go(func() {
			after := int64(0)
			for last := false; ; {
				select {
				case <-over:
					last = true
				default:
				}
				list, err := store.Events(t.Context(), after, 7)
				if err != nil {
					t.Error(err)
					return
				}
				for _, e := range list {
					after = e.Seq
					followed[i] = append(followed[i], e.Seq)
				}
				if last && len(list) == 0 {
					return
				}
			}
		})
	}
	var writing sync.WaitGroup
	for w := range writers {
		random := rand.New(rand.NewPCG(1, uint64(w)))
		writing.Go(func() {
			for i := range each {
				if err := write(random); err != nil {
					t.Error(err)
					return
				}
				if w == 0 && i == each/2 { // the one that stayed open ends halfway
					mu.Lock()
					written = append(written, held)
					mu.Unlock()
					if err := open.Commit(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	writing.Wait()
	eventually(t, "the feed has come to the end", func() bool {
		list, err := s.Events(t.Context(), slices.Max(written)-1, 1)
		must(t, err)
		other, err := postgres.New(pool).Events(t.Context(), slices.Max(written)-1, 1)
		must(t, err)
		return len(list) == 1 && len(other) == 1
	})
	close(over)
	wg.Wait()
	slices.Sort(written)
	for i, got := range followed {
		got = slices.DeleteFunc(got, func(seq int64) bool { return seq < held }) // of the order itself
		if !slices.Equal(got, written) {
			t.Errorf("follower %d: %d events, want %d: each once and in order", i, len(got), len(written))
		}
	}
}

// TestAFeedThatNobodyWritesToCostsNoTransactionIDs has a follower poll again and again.
func TestAFeedThatNobodyWritesToCostsNoTransactionIDs(t *testing.T) {
	pool := open(t)
	s := postgres.New(pool)
	r := reservation(t, s)
	_, err := s.Commit(t.Context(), []orders.Reservation{r})
	must(t, err)
	eventually(t, "the event is said", func() bool {
		list, err := s.Events(t.Context(), 0, 10)
		must(t, err)
		return len(list) == 1
	})
	var first, last uint64
	must(t, pool.QueryRow(t.Context(), `SELECT pg_current_xact_id()::text::bigint`).Scan(&first))
	for range 20 {
		_, err := s.Events(t.Context(), 1, 10)
		must(t, err)
	}
	must(t, pool.QueryRow(t.Context(), `SELECT pg_current_xact_id()::text::bigint`).Scan(&last))
	if spent := last - first - 1; spent >= 20 { // other tests may write to the same server
		t.Errorf("%d transaction ids for 20 questions", spent)
	}
}

// TestTheEndOfAnOrderReadsNoOther ends a few of many orders of a sale without statistics, as in its first minute. The number of
// rows read must not grow with the sale.
func TestTheEndOfAnOrderReadsNoOther(t *testing.T) {
	const few, many = 30, 20_000
	pool := open(t)
	s := postgres.New(pool)
	r := reservation(t, s)
	_, err := pool.Exec(t.Context(), `UPDATE items SET stock = $1`, many)
	must(t, err)
	_, err = pool.Exec(t.Context(), `ALTER TABLE orders SET (autovacuum_enabled = false)`)
	must(t, err)
	_, err = pool.Exec(t.Context(), `ALTER TABLE order_units SET (autovacuum_enabled = false)`)
	must(t, err)
	batch := make([]orders.Reservation, many)
	for i := range batch {
		batch[i] = r
		batch[i].ID[14], batch[i].ID[15] = byte(i>>8), byte(i)
		batch[i].BuyerHash, batch[i].Units = fmt.Sprint("buyer-", i), []int{i + 1}
	}
	for part := range slices.Chunk(batch, 500) {
		_, err := s.Commit(t.Context(), part)
		must(t, err)
	}
	ids, references := make([]orders.ID, few), make(map[orders.ID]string, few)
	for i := range few {
		ids[i] = batch[i].ID
		references[batch[few+i].ID] = fmt.Sprint("reference-", i)
	}
	for name, call := range map[string]func(*postgres.Store) (int, error){
		"cancel": func(s *postgres.Store) (int, error) { list, err := s.Cancel(t.Context(), ids); return len(list), err },
		"pay": func(s *postgres.Store) (int, error) {
			list, err := s.Pay(t.Context(), references)
			return len(list), err
		},
		"read": func(s *postgres.Store) (int, error) {
			found, err := s.Committed(t.Context(), ids)
			return len(found), err
		},
	} {
		before := rowsRead(t, pool)
		own, err := pgxpool.NewWithConfig(t.Context(), pool.Config()) // whose connections report what they read when they end
		must(t, err)
		n, err := call(postgres.New(own))
		own.Close()
		must(t, err)
		if n != few {
			t.Errorf("%s: %d orders, want %d", name, n, few)
		}
		var read int64
		eventually(t, "the statistics are there", func() bool { read = rowsRead(t, pool) - before; return read > 0 })
		if read > 10*few {
			t.Errorf("%s read %d rows for %d orders", name, read, few)
		}
	}
}

// rowsRead returns how many rows of orders and their units all closed connections have read.
func rowsRead(t *testing.T, pool *pgxpool.Pool) (n int64) {
	t.Helper()
	must(t, pool.QueryRow(t.Context(), `
		SELECT sum(seq_tup_read + idx_tup_fetch) + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname IN ('orders', 'order_units'))
		FROM pg_stat_user_tables WHERE relname IN ('orders', 'order_units')`).Scan(&n))
	return n
}
