package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/postgres"
)

// TestNumbersThatACrashGivesAgainAreWaitedFor sets the sequence back, as a crash does after transactions that took numbers and
// did not commit.
func TestNumbersThatACrashGivesAgainAreWaitedFor(t *testing.T) {
	for name, meanwhile := range map[string]bool{"somebody follows": true, "nobody looks until as many are given": false} {
		t.Run(name, func(t *testing.T) {
			pool := open(t)
			s := postgres.New(pool)
			r := reservation(t, s)
			_, err := s.Commit(t.Context(), []orders.Reservation{r})
			must(t, err)
			lost := begin(t, pool)
			var last int64
			for range 10 {
				last = event(t, lost, r.ID)
			}
			must(t, lost.Rollback(t.Context()))
			next := last - 9
			says := func(after int64) (list []orders.Event) {
				t.Helper()
				list, err := s.Events(t.Context(), after, 100)
				must(t, err)
				return list
			}
			eventually(t, "the first is said", func() bool { return len(says(0)) == 1 })
			_, err = pool.Exec(t.Context(), `SELECT setval('order_events_seq_seq', $1)`, next-1)
			must(t, err)
			if meanwhile {
				says(next - 1)
			}
			slow, fast := begin(t, pool), begin(t, pool)
			event(t, slow, r.ID)
			for range 12 {
				event(t, fast, r.ID)
			}
			must(t, fast.Commit(t.Context()))
			for range 3 {
				if list := says(next - 1); len(list) > 0 {
					t.Fatalf("event %d was said while %d was not decided", list[0].Seq, next)
				}
			}
			must(t, slow.Commit(t.Context()))
			eventually(t, "all are said", func() bool {
				list := says(next - 1)
				return len(list) == 13 && list[0].Seq == next
			})
		})
	}
}

// TestAFollowerWhoHangsUpDoesNotWaitForAnother: the database hangs for both.
func TestAFollowerWhoHangsUpDoesNotWaitForAnother(t *testing.T) {
	pool := open(t)
	s := postgres.New(pool)
	stop := begin(t, pool)
	_, err := stop.Exec(t.Context(), `LOCK TABLE order_events IN ACCESS EXCLUSIVE MODE`)
	must(t, err)
	first, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = s.Events(first, 0, 1)
	}()
	awaitBlocked(t, pool, 1)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	second := make(chan error, 1)
	go func() {
		_, err := s.Events(gone, 0, 1)
		second <- err
	}()
	select {
	case err := <-second:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want that it was cancelled", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it waits for the other")
	}
	must(t, stop.Rollback(t.Context()))
	end()
	<-ended
}
