package shop_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
	"github.com/tidegate/tidegate/migrations"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/asynqueue"
	"github.com/tidegate/tidegate/orders/postgres"
	"github.com/tidegate/tidegate/orders/shop"
	"github.com/tidegate/tidegate/redisclient"
)

// schemaPart is a constraint or an index, as Postgres describes it.
type schemaPart struct {
	Table, Name   string
	Index         bool
	Guards        bool
	Drop, Restore string
	Others        []string // SQL: restores what depends on it
}

// schemaParts reads them without help of the program's own description.
func (in *installation) schemaParts() []schemaPart {
	in.t.Helper()
	rows, err := in.pool.Query(in.t.Context(), `
		SELECT conrelid::regclass::text, conname, false, true, format('ALTER TABLE %s DROP CONSTRAINT %I CASCADE', conrelid::regclass, conname),
			format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(c.oid)),
			ARRAY(SELECT format('ALTER TABLE %s ADD CONSTRAINT %I %s', f.conrelid::regclass, f.conname, pg_get_constraintdef(f.oid))
				FROM pg_constraint f WHERE f.contype = 'f' AND f.confrelid = c.conrelid AND c.contype = 'p')
		FROM pg_constraint c WHERE connamespace = 'public'::regnamespace AND contype IN ('p', 'u', 'c', 'f') AND conrelid <> 'tidegate_versions'::regclass
		UNION ALL
		SELECT indrelid::regclass::text, indexrelid::regclass::text, true, indisunique, format('DROP INDEX %s', indexrelid::regclass), pg_get_indexdef(indexrelid), '{}'
		FROM pg_index JOIN pg_class c ON c.oid = indexrelid
		WHERE relnamespace = 'public'::regnamespace AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)`)
	must(in.t, err)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[schemaPart])
	must(in.t, err)
	return list
}

// TestAProcessMissesEachConstraintAndIndex drops each of them once.
func TestAProcessMissesEachConstraintAndIndex(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	sale := in.sale(p)
	exec := func(statements ...string) {
		t.Helper()
		for _, statement := range statements {
			if _, err := in.pool.Exec(t.Context(), statement); err != nil {
				t.Fatalf("%v: %s", err, statement)
			}
		}
	}
	parts := in.schemaParts()
	if len(parts) < 60 {
		t.Fatalf("only %d constraints and indexes", len(parts))
	}
	for _, part := range parts {
		exec(part.Drop)
		_, err := shop.Open(t.Context(), p.rdb, postgres.New(in.pool), asynqueue.New(p.rdb), shop.Options{Namespace: in.namespace})
		var incomplete *migrations.IncompleteError
		if !errors.As(err, &incomplete) || !strings.Contains(err.Error(), " "+part.Name+" of "+part.Table+" is missing; restore it with: ") {
			t.Errorf("started without %s: %v", part.Name, err)
		}
		c := in.check(p, sale.ID, "schema")
		if c.OK || c.Breaches != 1+len(part.Others) || !strings.Contains(c.Detail, " "+part.Name+" of "+part.Table+" is missing") || c.Advice == "" {
			t.Errorf("verify without %s: %+v", part.Name, c)
		}
		p.ReviewSchema(t.Context())
		if got := in.schemaConditions(p); len(got) != 1 || got[0].Serves == part.Guards || !strings.Contains(got[0].Detail, part.Name) {
			t.Errorf("conditions without %s: %+v", part.Name, got)
		}
		exec(part.Restore)
		exec(part.Others...)
		p.ReviewSchema(t.Context())
		if got := in.schemaConditions(p); got != nil {
			t.Errorf("conditions with %s again: %+v", part.Name, got)
		}
	}
	if c := in.check(p, sale.ID, "schema"); !c.OK {
		t.Error(c)
	}

	exec(`CREATE INDEX mine ON orders (buyer)`, `ALTER TABLE items ADD COLUMN color text NOT NULL DEFAULT 'red'`)
	if _, err := shop.Open(t.Context(), p.rdb, postgres.New(in.pool), asynqueue.New(p.rdb), shop.Options{Namespace: in.namespace}); err != nil {
		t.Errorf("with an operator's own index and column: %v", err)
	}
	exec(`ALTER TABLE order_units RENAME COLUMN unit TO seat`)
	if c := in.check(p, sale.ID, "schema"); !strings.Contains(c.Detail, "column of order_units.unit is missing") {
		t.Errorf("when no invariant can be read: %+v", c)
	}
	p.ReviewSchema(t.Context())
	if err := p.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "schema: ") {
		t.Errorf("ready: %v", err)
	}
}

func (in *installation) schemaConditions(p *process) (found []orders.Condition) {
	for _, c := range p.Conditions(in.t.Context()) {
		if c.Cause == orders.CauseSchema {
			found = append(found, c)
		}
	}
	return found
}

// TestOpenWithoutSchema: a database whose schema is too old is refused at the start, with what to do.
func TestOpenWithoutSchema(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), databases.Postgres(t))
	must(t, err)
	t.Cleanup(pool.Close)
	_, err = pool.Exec(t.Context(), `DROP TABLE tidegate_versions`)
	must(t, err)
	rdb, err := redisclient.Open(testenv.Redis(t))
	must(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	if _, err := shop.Open(t.Context(), rdb, postgres.New(pool), asynqueue.New(rdb), shop.Options{Logger: slog.New(slog.DiscardHandler)}); !errors.Is(err, migrations.ErrOutdated) || !strings.Contains(err.Error(), "migrations.Postgres") {
		t.Errorf("%v, want %v, and what to call", err, migrations.ErrOutdated)
	}
}
