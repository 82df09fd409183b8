package postgres_test

import (
	"database/sql"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // database/sql's driver, for the migrations

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/migrations"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/postgres"
	"github.com/tidegate/tidegate/orders/storetest"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) (orders.Store, func(string)) {
		pool := open(t)
		return postgres.New(pool), func(buyer string) {
			if _, err := pool.Exec(t.Context(), `ALTER TABLE orders ADD CHECK (buyer <> '`+buyer+`')`); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestACommitWaitsForAnEpochThatIsBeingRaised has the raise under way when the
// commit begins: it must see the new epoch, not the one it finds.
func TestACommitWaitsForAnEpochThatIsBeingRaised(t *testing.T) {
	pool := open(t)
	s := postgres.New(pool)
	sale, _, _, err := s.PutSale(t.Context(), orders.Sale{
		ID: "spring", StartsAt: time.Now(), EndsAt: time.Now().Add(time.Hour),
		Items: []orders.Item{{ID: "hat", Stock: 1, QuotaPerBuyer: 1, InFlightMax: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	raise, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raise.Exec(t.Context(), `UPDATE sales SET epoch = epoch + 1`); err != nil {
		t.Fatal(err)
	}
	type result struct {
		verdicts []orders.Verdict
		err      error
	}
	done := make(chan result, 1)
	go func() {
		verdicts, err := s.Commit(t.Context(), []orders.Reservation{{
			ID: orders.ID{6: 0x80, 15: 1}, Epoch: sale.Epoch, Sale: "spring", Item: "hat", BuyerHash: "h", Quantity: 1, Units: []int{1},
		}})
		done <- result{verdicts, err}
	}()
	waiting := time.NewTicker(5 * time.Millisecond)
	defer waiting.Stop()
	for blocked := false; !blocked; {
		select {
		case r := <-done:
			t.Fatalf("the commit did not wait: %+v", r)
		case <-waiting.C:
			if err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&blocked); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := raise.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.err != nil || !r.verdicts[0].Stale {
		t.Errorf("%+v, want stale", r)
	}
}

// open makes a database with the schema.
func open(t *testing.T) *pgxpool.Pool {
	t.Helper()
	url := testenv.Postgres(t)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := migrations.Postgres(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}
