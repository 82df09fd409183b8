package serve

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// TestASlowDatabaseBrakesTheRoom: while Postgres commits no order, a room gives fewer turns; when it commits again, all of them.
func TestASlowDatabaseBrakesTheRoom(t *testing.T) {
	t.Parallel()
	database := databases.Postgres(t)
	env := environment(testenv.Redis(t), database)
	api := startAPI(t, env)
	startWorker(t, env)
	openShop(t, api, 1)
	const sale, people = "gala", 5
	servetest.OpenSale(t, api.URL("internal"), sale, servetest.Sale("ticket", 100))
	servetest.AwaitOpen(t, api.URL("internal"), sale)
	room := "/v1/rooms/gala"
	body := fmt.Sprintf(`{"sale":%q,"item":"ticket","mode":"fifo","starts_at":%q}`, sale, time.Now().Add(-time.Minute).UTC().Format(time.RFC3339))
	if a := servetest.Call("PUT", api.URL("internal")+room, body); a.Status != http.StatusCreated {
		t.Fatal(a)
	}
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), `BEGIN; LOCK TABLE orders IN SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	for i := range people {
		user := []string{"X-User-ID", fmt.Sprint("user-", i)}
		servetest.Until(t, http.StatusCreated, func() servetest.Answer { return servetest.Call("POST", api.URL("public")+room+"/place", "", user...) })
		servetest.Until(t, http.StatusOK, func() servetest.Answer {
			return servetest.Call("POST", api.URL("public")+room+"/place/claim", "", user...)
		})
		servetest.Until(t, http.StatusAccepted, func() servetest.Answer {
			return servetest.Call("POST", api.URL("public")+"/v1/sales/"+sale+"/orders", `{"item":"ticket"}`, user...)
		})
	}
	type state struct {
		Brake       float64
		CommitLagMS int64 `json:"commit_lag_ms"`
	}
	await := func(what string, ok func(state) bool) {
		t.Helper()
		var s state
		servetest.Until(t, http.StatusOK, func() servetest.Answer {
			a := servetest.Call("GET", api.URL("internal")+room, "")
			if a.Into(t, &s); !ok(s) {
				a.Status = 0
			}
			return a
		})
		t.Logf("%s: %+v", what, s)
	}
	await("nothing is committed", func(s state) bool { return s.Brake < 0.9 && s.CommitLagMS > 2000 })
	metrics := servetest.Call("GET", api.URL("internal")+"/metrics", "")
	if !strings.Contains(string(metrics.Body), `tidegate_room_brake{room="gala"} 0.`) {
		t.Error("no metric")
	}
	if _, err := conn.Exec(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	await("all is committed", func(s state) bool { return s.Brake == 1 && s.CommitLagMS == 0 })
}
