package postgres_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/postgres"
)

// TestInstallationOfARoleThatMayNotAskForTheSystem has the rights that some managed servers leave.
func TestInstallationOfARoleThatMayNotAskForTheSystem(t *testing.T) {
	t.Parallel()
	pool := open(t)
	role := "r" + strings.ToLower(rand.Text()[:8])
	for _, statement := range []string{
		`REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC`,
		`CREATE ROLE ` + role,
		`GRANT SELECT, INSERT, UPDATE ON installation TO ` + role,
	} {
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if _, err := pool.Exec(context.WithoutCancel(t.Context()), `DROP OWNED BY `+role+`; DROP ROLE `+role); err != nil {
			t.Error(err)
		}
	})
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

	read := func(pool *pgxpool.Pool) orders.Installation {
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
	o := orders.Ownership{Namespace: "shop", Database: all}
	if err := o.Err(); err != nil {
		t.Errorf("what the role has stored is foreign to the owner: %v", err)
	}
}
