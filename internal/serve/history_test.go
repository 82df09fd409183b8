package serve

import (
	"database/sql"
	"net/http"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// TestHistoryIsForgotten: an API deletes events that are older than HISTORY_DAYS, unless that is 0.
func TestHistoryIsForgotten(t *testing.T) {
	t.Parallel()
	database := databases.Postgres(t)
	env := environment(testenv.Redis(t), database)
	api := startAPI(t, with(env, "HISTORY_DAYS", "0"))
	api.Addr("public") // it has created the tables
	db, err := sql.Open("pgx", database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for id, days := range map[string]int{"long ago": 91, "lately": 89} {
		if _, err := db.ExecContext(t.Context(), `
			INSERT INTO ban_events (id, at, lifted, kind, value, reason, rule, since, until, times)
			VALUES ($1, now() - $2 * interval '1 day', false, 'user', 'ann', '', '', now(), now(), 1)`, id, days); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (n int) {
		t.Helper()
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM ban_events").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	startAPI(t, with(env, "HISTORY_DAYS", "0")).Addr("public")
	if n := left(); n != 2 {
		t.Errorf("of a history for ever %d are left", n)
	}
	startAPI(t, env)
	servetest.Until(t, http.StatusOK, func() servetest.Answer {
		if left() == 1 {
			return servetest.Answer{Status: http.StatusOK}
		}
		return servetest.Answer{}
	})
}
