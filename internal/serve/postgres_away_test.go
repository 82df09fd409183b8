package serve

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

// TestOrdersWaitForPostgres stops Postgres during a sale: accepted orders wait, and at the in-flight cap no more are accepted;
// none is dropped, and all are committed when Postgres is back.
func TestOrdersWaitForPostgres(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settings string // of the programs' connections
		away     func(saleAPI, *testenv.PostgresServer) (back func())
	}{
		"killed": {"", func(_ saleAPI, p *testenv.PostgresServer) func() { p.Kill(); return p.Restart }},
		"frozen": {"", func(_ saleAPI, p *testenv.PostgresServer) func() { p.Stop(); return p.Continue }},
		// Statements hang until they time out, as on a stalled disk.
		"slow": {"&statement_timeout=300", func(s saleAPI, p *testenv.PostgresServer) func() {
			held := holdOrders(s.t, p)
			return func() {
				held.awaitGivenUp()
				held.end()
			}
		}},
		// Statements hang, and no connections are left for others.
		"pool exhausted": {"&pool_max_conns=4", func(s saleAPI, p *testenv.PostgresServer) func() {
			held := holdOrders(s.t, p)
			var lists sync.WaitGroup
			for range 16 {
				lists.Go(func() { servetest.Once("GET", s.URL("internal")+"/v1/sales/concert/orders", "") })
			}
			return func() {
				lists.Wait()
				held.end()
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const most, tries = 6, 4
			postgres := testenv.StartPostgres(t)
			env := environment(testenv.Redis(t), postgres.URL()+c.settings)
			startWorker(t, env)
			s := openShop(t, startAPI(t, env), 1000)
			sale := s.URL("internal") + "/v1/sales/concert"
			capped := strings.Replace(servetest.Sale("ticket", 1000), `"stock":1000`, fmt.Sprintf(`"stock":1000,"in_flight_max":%d`, most), 1)
			if a := servetest.Call("PUT", sale, capped); a.Status != http.StatusOK {
				t.Fatal(a)
			}
			before := s.bought("alice")
			s.confirmed(before, "alice")
			servetest.Until(t, http.StatusOK, func() servetest.Answer { return s.quiet() })

			ids := map[string]string{} // of the users' orders
			unknown := 0               // at most, of orders that were answered 503, and may have been accepted
			for round := 0; ; round++ {
				back := c.away(s, postgres)
				inTime := s.fills(most, tries, fmt.Sprint("round-", round, "-"), ids)
				// A committed order cannot be read, and the error comes quickly.
				if a := s.get(before, "alice"); a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" || a.Took > soon {
					t.Errorf("a committed order: after %v %v", a.Took, a)
				}
				back()
				for user, id := range ids {
					s.confirmed(id, user)
				}
				if inTime {
					break
				}
				unknown += most
				if round == 10 {
					t.Fatal("the machine is too busy for orders to be decided within the time that an API accepts them without the database")
				}
			}
			for i := range tries {
				user := fmt.Sprint("late-", i)
				ids[user] = s.bought(user)
				s.confirmed(ids[user], user)
			}
			servetest.Until(t, http.StatusOK, func() servetest.Answer { return s.quiet() })
			var all struct{ Items []struct{ Status string } }
			servetest.Call("GET", sale+"/orders?limit=1000", "").Into(t, &all)
			if n := len(all.Items) - len(ids) - 1; n < 0 || n > unknown {
				t.Errorf("%d orders of %d, and at most %d others", len(all.Items), len(ids)+1, unknown)
			}
			if a := servetest.Call("GET", s.URL("internal")+"/v1/orders/dead", ""); string(a.Body) != `{"items":[],"next_cursor":null}`+"\n" {
				t.Errorf("what Postgres had no time for was given up: %v", a)
			}
		})
	}
}

// fills places as many orders as may wait for their commit, adds them to ids, and checks that more are refused. It returns false if the
// API stopped to accept orders before: it does so 5 s after it last heard from the database.
func (s saleAPI) fills(most, more int, prefix string, ids map[string]string) bool {
	s.t.Helper()
	var (
		buyers sync.WaitGroup
		mu     sync.Mutex
		late   atomic.Bool
		end    = time.Now().Add(5 * time.Second)
	)
	for i := range most { // at once, because time is short
		buyers.Go(func() {
			user := fmt.Sprint(prefix, i)
			a := s.place(user)
			for a.Status == http.StatusServiceUnavailable && time.Now().Before(end) {
				a = s.place(user)
			}
			if a.Status != http.StatusAccepted {
				late.Store(true)
				return
			}
			var o struct {
				OrderID string `json:"order_id"`
			}
			a.Into(s.t, &o)
			mu.Lock()
			defer mu.Unlock()
			ids[user] = o.OrderID
		})
	}
	buyers.Wait()
	for i := range more {
		buyers.Go(func() {
			a := s.place(fmt.Sprint("late-", i))
			var body struct{ Reason string }
			a.Into(s.t, &body)
			switch {
			case late.Load():
			case body.Reason == "store_unavailable":
				late.Store(true)
			case a.Status != http.StatusServiceUnavailable || body.Reason != "at_capacity" || a.Header.Get("Retry-After") == "":
				s.t.Errorf("order %d: %v", i, a)
			}
		})
	}
	buyers.Wait()
	return !late.Load()
}

// held is a lock that blocks all access to the orders.
type held struct {
	t    testing.TB
	conn *pgx.Conn
}

func holdOrders(t testing.TB, p *testenv.PostgresServer) *held {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.URL())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `BEGIN; LOCK TABLE orders IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	return &held{t, conn}
}

func (h *held) end() {
	if err := h.conn.Close(h.t.Context()); err != nil { // and roll back
		h.t.Error(err)
	}
}

// awaitGivenUp waits until a commit of the worker has hit the lock and timed out.
func (h *held) awaitGivenUp() {
	h.t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	var waiting []time.Time // since when those wait that do
	for start := time.Now(); ; <-again.C {
		// Within a transaction these statistics do not change unless they are cleared.
		if _, err := h.conn.Exec(h.t.Context(), `SELECT pg_stat_clear_snapshot()`); err != nil {
			h.t.Fatal(err)
		}
		rows, err := h.conn.Query(h.t.Context(), `
			SELECT query_start FROM pg_stat_activity
			WHERE application_name = 'tidegate-worker' AND wait_event_type = 'Lock' AND query ~ 'INSERT INTO orders'`)
		if err != nil {
			h.t.Fatal(err)
		}
		times, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
		if err != nil {
			h.t.Fatal(err)
		}
		for _, at := range waiting {
			if !slices.ContainsFunc(times, at.Equal) {
				return
			}
		}
		waiting = times
		if time.Since(start) > time.Minute {
			h.t.Fatalf("none of %d commits was given up", len(waiting))
		}
	}
}

// quiet returns status 200 when every invariant holds and nothing is under way.
func (s saleAPI) quiet() servetest.Answer {
	a := servetest.Call("GET", s.URL("internal")+"/v1/sales/concert/verify", "")
	if a.Status != http.StatusOK {
		return a
	}
	var verdict struct {
		Checks []struct {
			Invariant, Detail string
			OK                bool
			Waiting           int
		}
	}
	a.Into(s.t, &verdict)
	for _, c := range verdict.Checks {
		if !c.OK {
			s.t.Errorf("%s: %s", c.Invariant, c.Detail)
		}
		if c.Waiting > 0 {
			a.Status = 0
		}
	}
	return a
}
