package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// TestARefusingDatabaseDoesNotFillTheLog: Postgres refuses every order that a worker commits, while buyers order. Each message
// of the worker is logged at a bounded rate, and its lines are short.
func TestARefusingDatabaseDoesNotFillTheLog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refuse string
		lasts  time.Duration
	}{
		// Every commit fails, also the sweeper's of what is 5 s old.
		"table": {`ALTER TABLE order_units RENAME TO gone`, 10 * time.Second},
		// Each order becomes a dead letter.
		"constraint": {`ALTER TABLE orders ADD CHECK (status = 'unknown') NOT VALID`, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := databases.Postgres(t)
			env := environment(testenv.Redis(t), database)
			s := openShop(t, startAPI(t, env), 100_000)
			db, err := pgx.Connect(t.Context(), database)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close(t.Context())
			worker := startWorker(t, env)
			worker.Addr("worker")
			if _, err := db.Exec(t.Context(), c.refuse); err != nil {
				t.Fatal(err)
			}

			began := time.Now()
			accepted := s.crowd(16, c.lasts, 100)
			count, longest, suppressed := map[string]int{}, 0, 0
			for line := range strings.Lines(worker.Output()) {
				var e struct {
					Level, Msg string
					Suppressed int
				}
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				count[e.Level+" "+e.Msg]++
				longest = max(longest, len(line))
				suppressed += e.Suppressed
			}
			t.Logf("%d orders, longest line %d bytes, %d lines suppressed, %v", accepted, longest, suppressed, count)
			if accepted < 100 {
				t.Errorf("only %d orders were accepted", accepted)
			}
			windows := 2 + int(time.Since(began)/(10*time.Second)) // those that the crowd touches, of 10 s
			for message, n := range count {
				if n > 10*windows {
					t.Errorf("%d lines: %s", n, message)
				}
			}
			if longest > 6000 {
				t.Errorf("a line of %d bytes", longest)
			}
		})
	}
}

// crowd sends orders from some callers for a while, and up to a minute longer until so many are accepted: a busy machine is slow. It returns
// how many were.
func (s saleAPI) crowd(callers int, lasts time.Duration, least int64) int64 {
	var accepted atomic.Int64
	var load sync.WaitGroup
	for i := range callers {
		load.Go(func() {
			began := time.Now()
			for n := 0; time.Since(began) < lasts || accepted.Load() < least && time.Since(began) < lasts+time.Minute; n++ {
				if a := s.place(fmt.Sprintf("u%d-%d", i, n)); a.Status == http.StatusAccepted {
					accepted.Add(1)
				}
			}
		})
	}
	load.Wait()
	return accepted.Load()
}
