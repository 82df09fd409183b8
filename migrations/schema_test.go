package migrations

import (
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the descriptions of the schema")

func (d *dialect) parts(t *testing.T, db *sql.DB) []Part {
	t.Helper()
	list, err := d.description(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// describe is the schema as text, one part a line.
func (d *dialect) describe(t *testing.T, db *sql.DB) string {
	t.Helper()
	var b strings.Builder
	for _, p := range d.parts(t, db) {
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", p.Kind, p.Table, p.Name, p.Definition)
	}
	return b.String()
}

// TestSchemaIsDescribed: the descriptions that programs compare databases with are those of the migrations.
func TestSchemaIsDescribed(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			db := open(t, d.driver, d.dsn(t))
			if err := d.up(t.Context(), db); err != nil {
				t.Fatal(err)
			}
			now := d.describe(t, db)
			if *update {
				if err := os.WriteFile("schema/"+d.name+".tsv", []byte(now), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(strings.Split(*d.golden, "\n"), strings.Split(now, "\n")); diff != "" {
				t.Errorf("schema/%s.tsv is not what the migrations make: run make schema\n%s", d.name, diff)
			}
		})
	}
}

// defects returns what a check finds.
func (d *dialect) defects(t *testing.T, db *sql.DB) []Defect {
	t.Helper()
	err := d.check(t.Context(), db)
	var incomplete *IncompleteError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &incomplete):
		t.Fatal(err)
	}
	text := err.Error()
	for _, found := range incomplete.Defects {
		if !strings.Contains(text, found.String()) || !strings.Contains(text, found.Restore()) {
			t.Errorf("%s\ndoes not name %v", text, found.String())
		}
	}
	return incomplete.Defects
}

// remove returns the SQL that removes a part from Postgres.
func remove(p Part) string {
	column := "ALTER TABLE " + p.Table + " ALTER COLUMN " + p.Name + " DROP "
	switch p.Kind {
	case "table":
		return "DROP TABLE " + p.Name + " CASCADE"
	case "column":
		return "ALTER TABLE " + p.Table + " DROP COLUMN " + p.Name + " CASCADE"
	case "not null", "default", "identity":
		return column + strings.ToUpper(p.Kind)
	case "index", "unique index":
		return "DROP INDEX " + p.Name
	case "trigger":
		return "DROP TRIGGER " + p.Name + " ON " + p.Table
	case "function":
		return "DROP FUNCTION " + p.Name + " CASCADE"
	}
	return "ALTER TABLE " + p.Table + " DROP CONSTRAINT " + p.Name + " CASCADE"
}

// TestEachPartIsMissed removes each part once, and restores it by what the error says.
func TestEachPartIsMissed(t *testing.T) {
	t.Parallel()
	d := dialects[0]
	db := open(t, d.driver, d.dsn(t))
	if err := d.up(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	exec := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%v: %s", err, statement)
		}
	}
	var tables []Part
	kinds := make(map[string]int)
	for _, p := range parseParts(postgresSchema) {
		if kinds[p.Kind]++; p.Kind == "table" || p.Kind == "column" {
			tables = append(tables, p)
			continue
		}
		if p.Kind == "not null" && slices.ContainsFunc(parseParts(postgresSchema), func(other Part) bool {
			return other.Table == p.Table && (other.Kind == "primary key" && strings.Contains(other.Definition, p.Name) || other.Kind == "identity" && other.Name == p.Name)
		}) { // Postgres refuses it
			continue
		}
		exec(remove(p))
		found := d.defects(t, db)
		if !slices.ContainsFunc(found, func(f Defect) bool { return f.Part == p && f.Found == "" && strings.Contains(f.String(), p.Name) }) {
			t.Errorf("%v was not missed: %v", p, found)
		}
		if err := (&IncompleteError{found}); err.OnlySlows() != (p.Kind == "index") {
			t.Errorf("%v only slows: %v", p, err.OnlySlows())
		}
		for _, f := range found {
			exec(f.Restore())
		}
		if left := d.defects(t, db); left != nil {
			t.Fatalf("%v is not restored: %v", p, left)
		}
	}
	for kind, least := range map[string]int{"primary key": 10, "unique": 2, "check": 15, "foreign key": 1, "index": 8, "unique index": 4, "default": 20, "not null": 100, "identity": 2, "trigger": 1, "function": 1} {
		if kinds[kind] < least {
			t.Errorf("%d of kind %s, want %d at least", kinds[kind], kind, least)
		}
	}
	slices.Reverse(tables) // columns first
	for _, p := range tables {
		exec(remove(p))
		found := d.defects(t, db)
		if !slices.ContainsFunc(found, func(f Defect) bool { return f.Part == p && f.Restore() == "" }) {
			t.Errorf("%v was not missed: %v", p, found)
		}
		if p.Kind == "table" && slices.ContainsFunc(found, func(f Defect) bool { return f.Table == p.Name && f.Kind != "table" }) {
			t.Errorf("parts of a missing table: %v", found)
		}
	}
}

// TestChangedParts: what is there and does something else is as good as missing, unless that does not matter.
func TestChangedParts(t *testing.T) {
	t.Parallel()
	d := dialects[0]
	db := open(t, d.driver, d.dsn(t))
	if err := d.up(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change string
		want   string // the defect; empty: none
	}{
		{change: `CREATE TABLE mine (id integer PRIMARY KEY); CREATE INDEX orders_of_buyers ON orders (buyer)`},
		{change: `ALTER TABLE orders ADD COLUMN note text NOT NULL DEFAULT 'none' CHECK (note <> '')`},
		{change: `ALTER TABLE orders ADD CONSTRAINT "no ""ada""" CHECK (buyer <> 'ada')`},
		{change: `ALTER INDEX orders_by_sale RENAME TO "Orders by sale"`},
		{change: `ALTER INDEX order_events_by_order SET (pages_per_range = 64)`},
		{change: `ALTER TABLE order_units RENAME CONSTRAINT order_units_pkey TO units_have_one_owner`},
		{change: `ALTER TABLE items DROP CONSTRAINT items_stock_check, ADD CONSTRAINT items_stock_check CHECK (stock >= 0) NOT VALID`},
		{change: `CREATE SCHEMA other; CREATE TABLE other.orders (order_id integer)`},
		{
			`ALTER TABLE items DROP CONSTRAINT items_quota_per_buyer_check, ADD CONSTRAINT items_quota_per_buyer_check CHECK (quota_per_buyer >= 0)`,
			"check items_quota_per_buyer_check of items is changed (CHECK ((quota_per_buyer >= 0)))",
		},
		{
			`DROP INDEX payments_that_paid; CREATE UNIQUE INDEX payments_that_paid ON payments (order_id, reference) WHERE action = 'none'`,
			"unique index payments_that_paid of payments is changed (unique index ON payments USING btree (order_id, reference) WHERE (action = 'none'::text))",
		},
		{`DROP INDEX orders_identity; CREATE INDEX orders_identity ON orders (sale, buyer_hash, item, key_hash)`, "unique index orders_identity of orders is changed (index ON orders USING btree (sale, buyer_hash, item, key_hash))"},
		{`UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'orders_unpaid'::regclass`, "index orders_unpaid of orders is changed (index ON orders USING btree (pay_before) WHERE ((status = 'confirmed'::text) AND (pay_before IS NOT NULL)) INVALID)"},
		{`ALTER TABLE order_events DISABLE TRIGGER ALL`, "trigger order_events_are_final of order_events is changed (BEFORE DELETE OR UPDATE ON order_events FOR EACH STATEMENT EXECUTE FUNCTION order_events_are_final() DISABLED)"},
		{`ALTER TABLE items DISABLE TRIGGER ALL`, "foreign key items_sale_fkey of items is changed (FOREIGN KEY (sale) REFERENCES sales(sale) DISABLED)"},
		{`CREATE OR REPLACE FUNCTION order_events_are_final() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`, "function order_events_are_final of order_events is changed (BEGIN RETURN NULL; END)"},
		{`ALTER TABLE sales ALTER COLUMN epoch SET DEFAULT 7`, "default of sales.epoch is changed (7)"},
		{`ALTER TABLE items ALTER COLUMN number SET MAXVALUE 20000000`, "identity of items.number is changed (GENERATED ALWAYS AS IDENTITY (MINVALUE 1 MAXVALUE 20000000))"},
	} {
		if _, err := db.ExecContext(t.Context(), c.change); err != nil {
			t.Fatalf("%v: %s", err, c.change)
		}
		found := d.defects(t, db)
		if c.want == "" {
			if found != nil {
				t.Errorf("%s: %v", c.change, found)
			}
			continue
		}
		if len(found) != 1 || found[0].String() != c.want {
			t.Errorf("%s:\ngot  %v\nwant %s", c.change, found, c.want)
		}
		for _, f := range found {
			if _, err := db.ExecContext(t.Context(), f.Restore()); err != nil {
				t.Fatalf("%v: %s", err, f.Restore())
			}
		}
		if left := d.defects(t, db); left != nil {
			t.Fatalf("%s is not restored: %v", c.change, left)
		}
	}
}

// TestChangedPartsInSQLite: only its indexes and triggers can be dropped and made again.
func TestChangedPartsInSQLite(t *testing.T) {
	d := dialects[1]
	db := open(t, d.driver, d.dsn(t))
	if err := d.up(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change string
		want   string // the defect; empty: none
		lost   bool   // only a backup has it
	}{
		{change: `CREATE TABLE mine (id integer PRIMARY KEY); CREATE INDEX orders_of_buyers ON orders (buyer)`},
		{change: `ALTER TABLE orders ADD COLUMN note text NOT NULL DEFAULT 'a, (b' CHECK (note <> ')')`},
		{change: `DROP INDEX orders_identity`, want: "unique index orders_identity of orders is missing"},
		{change: `DROP INDEX orders_unpaid; CREATE INDEX orders_unpaid ON orders (status)`, want: "index orders_unpaid of orders is changed (index ON orders (status))"},
		{change: `DROP TRIGGER order_events_stay`, want: "trigger order_events_stay of order_events is missing"},
		{
			change: `PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = replace(sql, 'unit     integer NOT NULL CHECK (unit >= 1)', 'unit integer NOT NULL') WHERE name = 'order_units'`,
			want:   "column of order_units.unit is changed (integer NOT NULL)", lost: true,
		},
	} {
		if _, err := db.ExecContext(t.Context(), c.change); err != nil {
			t.Fatalf("%v: %s", err, c.change)
		}
		found := d.defects(t, db)
		if c.want == "" && found != nil || c.want != "" && (len(found) != 1 || found[0].String() != c.want || (found[0].Restore() == "") != c.lost) {
			t.Errorf("%s:\ngot  %v\nwant %s", c.change, found, c.want)
		}
		for _, f := range found {
			if _, err := db.ExecContext(t.Context(), f.Restore()); err != nil {
				t.Fatalf("%v: %s", err, f.Restore())
			}
		}
		if left := d.defects(t, db); left != nil && !c.lost {
			t.Fatalf("%s is not restored: %v", c.change, left)
		}
	}
}

// TestAnOlderProgramAcceptsThisSchema: processes of earlier versions may start again until an upgrade is over. A migration that fails here
// removes what they compare: as long as the last release is one of them, it has to wait for the next release.
func TestAnOlderProgramAcceptsThisSchema(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			db := open(t, d.driver, d.dsn(t))
			p, err := provider(d.goose, db)
			if err != nil {
				t.Fatal(err)
			}
			earlier := make(map[int64]string) // what the program of each version compares
			for _, source := range p.ListSources() {
				if _, err := p.UpTo(t.Context(), source.Version); err != nil {
					t.Fatal(err)
				}
				earlier[source.Version] = d.describe(t, db)
			}
			for version, golden := range earlier {
				if err := complete(d.parts(t, db), golden, version < int64(len(earlier))); err != nil {
					t.Errorf("the program of version %d: %v", version, err)
				}
			}
			do := func(statement string) {
				t.Helper()
				if _, err := db.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			now := earlier[int64(len(earlier))]
			do("DROP INDEX orders_by_sale")
			do("CREATE INDEX orders_by_sale ON orders (sale)") // as a later migration may make it
			if err := complete(d.parts(t, db), now, true); err != nil {
				t.Errorf("an index of another definition in a newer schema: %v", err)
			}
			if err := complete(d.parts(t, db), now, false); err == nil {
				t.Error("an index of another definition is accepted although the schema is not newer")
			}
			do("DROP INDEX orders_identity")
			if err := complete(d.parts(t, db), now, true); err == nil || !strings.Contains(err.Error(), "unique index orders_identity of orders is missing") {
				t.Errorf("a program of before, and an index that is missing: %v", err)
			}
		})
	}
}

// TestSchemaElsewhere: the tables may be in another schema of the database, beside others in public.
func TestSchemaElsewhere(t *testing.T) {
	d := dialects[0]
	dsn := d.dsn(t)
	public := open(t, d.driver, dsn)
	if _, err := public.ExecContext(t.Context(), "CREATE SCHEMA shop; CREATE TABLE orders (id integer)"); err != nil {
		t.Fatal(err)
	}
	separator := "?"
	if strings.Contains(dsn, "?") {
		separator = "&"
	}
	db := open(t, d.driver, dsn+separator+"search_path=shop,public")
	if err := d.up(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if found := d.defects(t, db); found != nil {
		t.Error(found)
	}
}
