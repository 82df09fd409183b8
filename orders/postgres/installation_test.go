package postgres_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // database/sql's driver, for the migrations

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/migrations"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/postgres"
	"github.com/tidegate/tidegate/orders/shop"
)

// TestInstallationOfARoleThatMayNotAskForTheSystem has the rights that some managed servers leave.
func TestInstallationOfARoleThatMayNotAskForTheSystem(t *testing.T) {
	t.Parallel()
	pool := open(t)
	if _, err := pool.Exec(t.Context(), `REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC`); err != nil {
		t.Fatal(err)
	}
	limited := as(t, pool, newRole(t, pool, `GRANT SELECT, INSERT, UPDATE ON installation TO %s`))

	read := func(pool *pgxpool.Pool) storage.Installation {
		t.Helper()
		in, err := postgres.New(pool).Installation(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	if err := postgres.New(limited).Install(t.Context(), "shop", false); err != nil {
		t.Fatal(err)
	}
	of, all := read(limited), read(pool)
	if of.Live.System != 0 || of.Stored.System != 0 || of.Live.Database == 0 || of.Stored != of.Live {
		t.Errorf("the role reads %+v", of)
	}
	if all.Live.System == 0 || all.Stored != of.Stored || all.ID != of.ID {
		t.Errorf("the owner reads %+v, and the role %+v", all, of)
	}
	store := postgres.New(limited)
	var who string
	if err := limited.QueryRow(t.Context(), `SELECT current_user`).Scan(&who); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		change string
		sees   bool
	}{
		{`GRANT EXECUTE ON FUNCTION pg_control_system() TO ` + who, true},
		{`REVOKE EXECUTE ON FUNCTION pg_control_system() FROM ` + who, false},
		{`GRANT EXECUTE ON FUNCTION pg_control_system() TO ` + who, true},
	} {
		if _, err := pool.Exec(t.Context(), step.change); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			in, err := store.Installation(t.Context())
			want := of
			if step.sees {
				want.Live = all.Live
			}
			if err != nil || in != want {
				t.Errorf("after %s: %+v %v, want %+v", step.change, in, err, want)
			}
		}
	}
	o := shop.Ownership{Namespace: "shop", Database: all}
	if err := o.Err(); err != nil {
		t.Errorf("what the role has stored is foreign to the owner: %v", err)
	}
}

// TestProveAsksForEachRight that a commit needs.
func TestProveAsksForEachRight(t *testing.T) {
	t.Parallel()
	pool := open(t)
	role := newRole(t, pool, `GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO %s`, `GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO %s`)
	limited := as(t, pool, role)
	if err := postgres.New(limited).Prove(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, right := range []string{"INSERT ON orders", "INSERT ON order_units", "INSERT ON order_events", "SELECT ON sales", "UPDATE ON sales", "SELECT ON items"} {
		exec := func(statement string) {
			t.Helper()
			if _, err := pool.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		exec(`REVOKE ` + right + ` FROM ` + role)
		if err := postgres.New(limited).Prove(t.Context()); err == nil {
			t.Errorf("without %s it proves that orders can be committed", right)
		}
		exec(`GRANT ` + right + ` TO ` + role)
	}
}

// newRole creates a role with rights.
func newRole(t *testing.T, pool *pgxpool.Pool, rights ...string) string {
	t.Helper()
	role := "r" + strings.ToLower(rand.Text()[:8])
	for _, statement := range append([]string{`CREATE ROLE %s`}, rights...) {
		if _, err := pool.Exec(t.Context(), fmt.Sprintf(statement, role)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if _, err := pool.Exec(context.WithoutCancel(t.Context()), `DROP OWNED BY `+role+`; DROP ROLE `+role); err != nil {
			t.Error(err)
		}
	})
	return role
}

// as returns a pool of a role.
func as(t *testing.T, pool *pgxpool.Pool, role string) *pgxpool.Pool {
	t.Helper()
	config := pool.Config()
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, `SET ROLE `+role)
		return err
	}
	limited, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(limited.Close)
	return limited
}

// TestAStandbyIsNoEarlierMoment: what is read there is not taken for the primary's.
func TestAStandbyIsNoEarlierMoment(t *testing.T) {
	t.Parallel()
	primary := testenv.StartPostgres(t)
	db, err := sql.Open("pgx", primary.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := migrations.Postgres(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]error{primary.URL(): nil, testenv.StartStandby(t, primary, "").URL(): orders.ErrUnavailable} {
		pool, err := pgxpool.New(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		store := postgres.New(pool)
		if _, _, err := store.Newest(t.Context(), storage.LastEvent{}); !errors.Is(err, want) {
			t.Errorf("newest event: %v, want %v", err, want)
		}
		if _, err := store.Differing(t.Context(), storage.NewKnownSales(nil)); !errors.Is(err, want) {
			t.Errorf("sales: %v, want %v", err, want)
		}
	}
}
