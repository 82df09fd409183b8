package main

import (
	"crypto/rand"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// TestNothingStartsWithoutAConstraint: the primary key of sold units, and an index.
func TestNothingStartsWithoutAConstraint(t *testing.T) {
	t.Parallel()
	bin, database := testenv.Programs(t), databases.Postgres(t)
	db, err := sql.Open("pgx", database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(t.Context(), `ALTER TABLE order_units DROP CONSTRAINT order_units_pkey; DROP INDEX orders_unpaid`); err != nil {
		t.Fatal(err)
	}
	env := []string{
		"REDIS_URL=" + testenv.Redis(t), "DATABASE_URL=" + database, "IDENTITY=header", "SECRET=" + rand.Text() + rand.Text(), "INTERNAL_TOKEN=" + token,
		"LISTEN=127.0.0.1:0", "INTERNAL_LISTEN=127.0.0.1:0", "WORKER_LISTEN=127.0.0.1:0",
	}
	wants := func(what, text string) {
		t.Helper()
		for _, want := range []string{
			"primary key order_units_pkey of order_units is missing; restore it with: ALTER TABLE order_units ADD CONSTRAINT order_units_pkey PRIMARY KEY (sale, item, unit);\n",
			"index orders_unpaid of orders is missing; restore it with: CREATE INDEX orders_unpaid ON orders USING btree (pay_before) WHERE ",
		} {
			if !strings.Contains(text+"\n", want) {
				t.Errorf("%s: %s\nwant %s", what, text, want)
			}
		}
	}
	for _, program := range []string{"api", "worker"} {
		for _, migrate := range []string{"true", "false"} {
			cmd := exec.CommandContext(t.Context(), filepath.Join(bin, program))
			cmd.Env = append(os.Environ(), append(env, "MIGRATE="+migrate)...)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Errorf("%s, MIGRATE=%s: started", program, migrate)
			}
			wants(program+", MIGRATE="+migrate, string(out))
		}
	}
	_, err = call(t, func(name string) string { return map[string]string{"DATABASE_URL": database}[name] }, "migrate")
	if err == nil {
		t.Fatal("tidegate migrate: the schema is complete")
	}
	wants("tidegate migrate", err.Error())
}
