package serve

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// TestDefaultsOfTheDatabase: whatever a database sets for its sessions, it refuses no statement of calls that arrive at the same time.
func TestDefaultsOfTheDatabase(t *testing.T) {
	t.Parallel()
	url := databases.Postgres(t)
	admin, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	database := pgx.Identifier{admin.Config().Database}.Sanitize()
	for _, setting := range []string{`default_transaction_isolation = serializable`, `lock_timeout = '1ms'`, `client_encoding = LATIN1`} {
		if _, err := admin.Exec(t.Context(), `ALTER DATABASE `+database+` SET `+setting); err != nil {
			t.Fatal(err)
		}
	}
	env := environment(testenv.Redis(t), url)
	worker, second := startWorker(t, env), startAPI(t, env)
	s := openShop(t, startAPI(t, env), 1000)
	servetest.OpenSale(t, s.URL("internal"), "gala", strings.Replace(servetest.Sale("ticket", 1000), `"hold_ms":0`, `"hold_ms":600000`, 1))
	room := fmt.Sprintf(`{"mode":"fifo","rate_per_min":6000,"requires_user":true,"starts_at":%q}`, time.Now().Add(-time.Minute).UTC().Format(time.RFC3339))
	if a := servetest.Call("PUT", s.URL("internal")+"/v1/rooms/lobby", room); a.Status/100 != 2 {
		t.Fatal(a)
	}
	servetest.AwaitOpen(t, second.URL("internal"), "gala")
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", second.URL("public")+"/v1/rooms/lobby", "") })
	const people = 150
	of := func(i int) *servetest.Program { return []*servetest.Program{s.Program, second}[i/16%2] }
	ids := make([]string, people)
	all := func(what string, call func(i int) servetest.Answer) {
		t.Helper()
		var (
			wg     sync.WaitGroup
			mu     sync.Mutex
			failed []servetest.Answer
		)
		for first := range 16 {
			wg.Go(func() {
				for i := first; i < people; i += 16 {
					if a := call(i); a.Status/100 != 2 {
						mu.Lock()
						failed = append(failed, a)
						mu.Unlock()
					}
				}
			})
		}
		if wg.Wait(); len(failed) > 0 {
			t.Errorf("%d of %d calls fail to %s: %v", len(failed), people, what, failed[0])
		}
	}
	user := func(i int) string { return fmt.Sprint("user-", i) }
	all("join", func(i int) servetest.Answer {
		return servetest.Call("POST", of(i).URL("public")+"/v1/rooms/lobby/place", "", "X-User-ID", user(i))
	})
	all("order", func(i int) servetest.Answer {
		a := servetest.Call("POST", of(i).URL("public")+"/v1/sales/gala/orders", `{"item":"ticket"}`, "X-User-ID", user(i))
		var o struct {
			OrderID string `json:"order_id"`
		}
		a.Into(t, &o)
		ids[i] = o.OrderID
		return a
	})
	for i, id := range ids {
		s.confirmed(id, user(i))
	}
	all("capture or cancel", func(i int) servetest.Answer {
		if i%2 == 0 {
			return servetest.Call("POST", of(i).URL("internal")+"/v1/orders/"+ids[i]+"/payment", fmt.Sprintf(`{"reference":"ref-%d","outcome":"captured"}`, i))
		}
		return servetest.Call("POST", of(i).URL("public")+"/v1/orders/"+ids[i]+"/cancel", "", "X-User-ID", user(i))
	})
	if a := servetest.Call("GET", s.URL("internal")+"/v1/sales/gala/verify", ""); a.Status != http.StatusOK {
		t.Error(a)
	}
	if logs := s.Output() + second.Output() + worker.Output(); strings.Contains(logs, "SQLSTATE") { // a busy machine may answer 503 for other reasons
		t.Errorf("Postgres refused %d statements:\n%s", strings.Count(logs, "SQLSTATE"), logs)
	}
}
