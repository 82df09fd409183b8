package postgres_test

import (
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/postgres"
	"github.com/tidegate/tidegate/orders/storetest"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) (storage.Store, func(string)) {
		pool := open(t)
		return postgres.New(pool), func(buyer string) {
			if _, err := pool.Exec(t.Context(), `ALTER TABLE orders ADD CHECK (buyer <> '`+buyer+`')`); err != nil {
				t.Fatal(err)
			}
		}
	})
}

type result struct {
	verdicts []storage.Verdict
	err      error
}

// TestACommitWaitsForAHandOverThatIsBeingEnded begins a commit while EndHandOver is running: the commit must see the new floor,
// not the old one.
func TestACommitWaitsForAHandOverThatIsBeingEnded(t *testing.T) {
	pool := open(t)
	s := postgres.New(pool)
	r := reservation(t, s)
	end := begin(t, pool)
	_, err := end.Exec(t.Context(), `UPDATE sales SET epoch = epoch + 1, epoch_floor = epoch + 1`)
	must(t, err)
	done := make(chan result, 1)
	go func() {
		verdicts, err := s.Commit(t.Context(), []orders.Reservation{r})
		done <- result{verdicts, err}
	}()
	awaitBlocked(t, pool, 1)
	must(t, end.Commit(t.Context()))
	if r := <-done; r.err != nil || !r.verdicts[0].Stale {
		t.Errorf("%+v, want stale", r)
	}
}

// TestTheEndOfAHandOverWaitsForCommits calls EndHandOver while a commit is blocked by another writer of the same unit.
func TestTheEndOfAHandOverWaitsForCommits(t *testing.T) {
	pool := open(t)
	s := postgres.New(pool)
	r := reservation(t, s)
	lead := storage.Lead{Sale: r.Sale, Epoch: r.Epoch + 1, Token: "leader"}
	must(t, s.RaiseEpoch(t.Context(), r.Epoch, lead))
	stop := begin(t, pool)
	_, err := stop.Exec(t.Context(), `INSERT INTO order_units (sale, item, unit, order_id) VALUES ($1, $2, $3, gen_random_uuid())`, r.Sale, r.Item, r.Units[0])
	must(t, err)
	committed, ended := make(chan result, 1), make(chan error, 1)
	go func() {
		verdicts, err := s.Commit(t.Context(), []orders.Reservation{r})
		committed <- result{verdicts, err}
	}()
	awaitBlocked(t, pool, 1)
	go func() { ended <- s.EndHandOver(t.Context(), lead, nil) }()
	awaitBlocked(t, pool, 2)
	must(t, stop.Rollback(t.Context()))
	must(t, <-ended)
	// Counts of units from here on include this one.
	owners := make(map[int]orders.ID)
	must(t, s.Owners(t.Context(), r.Sale, []string{r.Item}, func(_ string, unit int, owner orders.ID) { owners[unit] = owner }))
	if owners[r.Units[0]] != r.ID {
		t.Errorf("owners %v when the hand-over has ended, want order %s", owners, r.ID)
	}
	if r := <-committed; r.err != nil || r.verdicts[0].Status != orders.StatusConfirmed {
		t.Errorf("%+v, want confirmed", r)
	}
}

// reservation returns a reservation of the only unit of a new sale's only item.
func reservation(t *testing.T, s *postgres.Store) orders.Reservation {
	t.Helper()
	sale, _, _, err := s.PutSale(t.Context(), orders.Sale{
		ID: "spring", StartsAt: time.Now(), EndsAt: time.Now().Add(time.Hour), Hold: time.Minute,
		Items: []orders.Item{{ID: "hat", Stock: 1000, QuotaPerBuyer: 1, InFlightMax: 1}},
	})
	must(t, err)
	return orders.Reservation{
		ID: orders.ID{6: 0x80, 15: 1}, Epoch: sale.Epoch, Sale: "spring", Item: "hat", BuyerHash: "h", Quantity: 1, Units: []int{1},
	}
}

// awaitBlocked waits until count sessions wait for a lock.
func awaitBlocked(t *testing.T, pool *pgxpool.Pool, count int) {
	t.Helper()
	eventually(t, "sessions that wait for a lock", func() bool {
		var blocked int
		must(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&blocked))
		return blocked == count
	})
}

// eventually polls until ok. Use it only where there is no signal to wait for.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open creates a database with the schema.
func open(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), databases.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}
