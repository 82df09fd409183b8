package sqlite_test

import (
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/testenv/databases"
	"github.com/tidegate/tidegate/orders/internal/inspection"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/sqlite"
	"github.com/tidegate/tidegate/orders/storetest"
)

func TestInspect(t *testing.T) {
	storetest.RunInspect(t, func(t *testing.T) (storage.Store, func(storetest.Damage)) {
		db := databases.OpenSQLite(t)
		return sqlite.New(db), func(d storetest.Damage) {
			if _, err := db.ExecContext(t.Context(), `DROP TRIGGER order_events_stay; DROP TRIGGER order_events_are_final; `+d.SQL); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestInspectReadsEventsByOrder: no query reads all events, which would be once for each order of the sale.
func TestInspectReadsEventsByOrder(t *testing.T) {
	db := databases.OpenSQLite(t)
	for _, query := range slices.Concat(inspection.Queries, inspection.EventQueries) {
		steps := plan(t, db, strings.ReplaceAll(query, "$", "?"))
		if len(steps) == 0 || slices.ContainsFunc(steps, func(step string) bool {
			return strings.HasPrefix(step, "SCAN e") || strings.HasPrefix(step, "SCAN order_events")
		}) {
			t.Errorf("%s\n%s", query, strings.Join(steps, "\n"))
		}
	}
}

func plan(t *testing.T, db *sql.DB, query string) (steps []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, "spring", inspection.MaxBreaches, "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, step)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return steps
}
