package postgres_test

import (
	"context"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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
	for name, plain := range map[string]bool{"each batch is tried as a plain one": true, "none is": false} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) (storage.Store, func(string)) {
				pool := open(t)
				var s storage.Store = postgres.Eager{Store: postgres.New(pool)}
				if !plain {
					s = postgres.New(pool).TryPlain(false)
				}
				return s, func(buyer string) {
					if _, err := pool.Exec(t.Context(), `ALTER TABLE orders ADD CHECK (buyer <> '`+buyer+`')`); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

// counter counts what is sent to Postgres: single statements, and several that are sent together.
type counter struct{ statements, batches int }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.statements++
	return ctx
}

func (*counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *counter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.batches++
	return ctx
}

func (*counter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (*counter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// TestNewOrdersAreCommittedInOneRoundTrip, and others in several.
func TestNewOrdersAreCommittedInOneRoundTrip(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec} {
		t.Run(mode.String(), func(t *testing.T) { testRoundTrips(t, mode) })
	}
}

func testRoundTrips(t *testing.T, mode pgx.QueryExecMode) {
	cfg, err := pgxpool.ParseConfig(databases.Postgres(t))
	must(t, err)
	cfg.ConnConfig.DefaultQueryExecMode = mode
	var sent counter
	cfg.ConnConfig.Tracer = &sent
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	must(t, err)
	t.Cleanup(pool.Close)
	s := postgres.New(pool)
	r := reservation(t, s)
	commit := func(batches int, oneRoundTrip bool, verdict storage.Verdict) {
		t.Helper()
		sent = counter{}
		got, err := s.Commit(t.Context(), []orders.Reservation{r})
		if err != nil || !reflect.DeepEqual(got, []storage.Verdict{verdict}) {
			t.Errorf("%+v, %v, want %+v", got, err, verdict)
		}
		if sent.batches != batches || (sent.statements == 0) != oneRoundTrip {
			t.Errorf("sent %+v", sent)
		}
	}
	next := func() { r.ID[15]++; r.BuyerHash += "h"; r.Units = []int{r.Units[0] + 1} }
	confirmed := storage.Verdict{Status: orders.StatusConfirmed}
	commit(1, true, confirmed)
	repeated := confirmed
	repeated.Repeated = true
	commit(1, false, repeated)
	s.TryPlain(false)
	next()
	commit(0, false, confirmed)
	s.TryPlain(true)
	next()
	_, err = pool.Exec(t.Context(), `
		CREATE SEQUENCE tries;
		CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF nextval('tries') = 1 THEN RAISE EXCEPTION 'once' USING ERRCODE = '40001'; END IF;
			RETURN NULL;
		END $$;
		CREATE TRIGGER fail_once AFTER INSERT ON order_events EXECUTE FUNCTION fail_once()`, pgx.QueryExecModeSimpleProtocol)
	must(t, err)
	commit(2, true, confirmed) // a transaction that Postgres ended is repeated
	var events int
	must(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM order_events WHERE status = 'confirmed' AND reason = ''`).Scan(&events))
	if events != 3 {
		t.Errorf("%d events of 3 orders", events)
	}
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
