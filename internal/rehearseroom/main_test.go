package rehearseroom_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/serve"
	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// house is an installation of the real programs, over Redis and Postgres, with at most one room.
type house struct {
	*testing.T

	env  map[string]string
	apis []*servetest.Program
	db   *sql.DB
	at   time.Time // the database's clock, after ownClock

	started string // when the room started to serve
}

const (
	room  = "/v1/rooms/hall"
	place = room + "/place"
	sale  = "gala"
)

// install starts so many APIs.
func install(t *testing.T, apis int) *house {
	t.Helper()
	h := prepare(t)
	for range apis {
		h.startAPI()
	}
	return h
}

// prepare makes an installation of which no program runs yet.
func prepare(t *testing.T) *house {
	t.Helper()
	h := &house{T: t, env: map[string]string{
		"REDIS_URL": testenv.Redis(t), "DATABASE_URL": databases.Postgres(t), "NAMESPACE": "test-" + strings.ToLower(rand.Text()[:10]),
		"IDENTITY": "header", "SECRET": testenv.Secret, "LOG_FORMAT": "json",
		"LISTEN": "127.0.0.1:0", "INTERNAL_LISTEN": "127.0.0.1:0", "WORKER_LISTEN": "127.0.0.1:0",
	}}
	var err error
	if h.db, err = sql.Open("pgx", h.env["DATABASE_URL"]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.db.Close() })
	return h
}

func (h *house) getenv(name string) string { return h.env[name] }

func (h *house) startAPI() *servetest.Program {
	h.Helper()
	p := servetest.Start(h.T, func(ctx context.Context, stderr io.Writer) error {
		cfg, err := config.API(nil, h.getenv, stderr)
		if err != nil {
			return err
		}
		return serve.API(ctx, cfg, cfg.Logger(stderr))
	})
	h.apis = append(h.apis, p)
	servetest.Until(h.T, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", p.URL("internal")+"/readyz", "") })
	return p
}

func (h *house) startWorker() {
	h.Helper()
	servetest.Start(h.T, func(ctx context.Context, stderr io.Writer) error {
		cfg, err := config.Worker(nil, h.getenv, stderr)
		if err != nil {
			return err
		}
		return serve.Worker(ctx, cfg, cfg.Logger(stderr))
	})
}

// sell opens a sale of final stock, which is sold through the room once there is one. With hold, orders must be paid within that time.
func (h *house) sell(stock, quota int, hold time.Duration) {
	h.Helper()
	now := time.Now().UTC()
	servetest.OpenSale(h.T, h.apis[0].URL("internal"), sale, fmt.Sprintf(
		`{"starts_at":%q,"ends_at":%q,"hold_ms":%d,"items":[{"item":"ticket","stock":%d,"quota_per_buyer":%d,"final":true}]}`,
		now.Add(-time.Hour).Format(time.RFC3339), now.Add(24*time.Hour).Format(time.RFC3339), hold.Milliseconds(), stock, quota))
	for _, api := range h.apis {
		servetest.AwaitOpen(h.T, api.URL("internal"), sale)
	}
}

// room makes the room, which has been serving for a minute in mode fifo unless more says something else, and waits until all APIs know it.
func (h *house) room(more string) {
	h.Helper()
	now := time.Now()
	if !h.at.IsZero() {
		now = h.at
	}
	if !strings.Contains(more, `"mode"`) {
		h.started = now.Add(-time.Minute).UTC().Format(time.RFC3339Nano)
		more += fmt.Sprintf(`,"mode":"fifo","starts_at":%q`, h.started)
	}
	h.operate(http.StatusCreated, "PUT", room, "{"+strings.TrimPrefix(more, ",")+"}")
	for _, api := range h.apis {
		servetest.Until(h.T, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", api.URL("public")+room, "") })
	}
	if !h.at.IsZero() {
		h.later(step) // the first tick of a room needs no time to pass
	}
}

// operate makes a call of an operator.
func (h *house) operate(status int, method, path, body string) servetest.Answer {
	h.Helper()
	return servetest.Until(h.T, status, func() servetest.Answer { return servetest.Call(method, h.apis[0].URL("internal")+path, body) })
}

// as makes a call of a user, at the API of that number modulo how many there are.
func (h *house) as(user string, api int, method, path, body string) servetest.Answer {
	return servetest.Call(method, h.apis[api%len(h.apis)].URL("public")+path, body, "X-User-ID", user)
}

// seen is what a test reads of a place.
type seen struct {
	State, Token, Pass, Outlook string
	Number, Position, Ahead     int64
	PollAfterMS                 int64     `json:"poll_after_ms"`
	TurnUntil                   time.Time `json:"turn_until"`
	OrderID                     string    `json:"order_id"`
	ETA                         *struct {
		MinMS int64 `json:"min_ms"`
		MaxMS int64 `json:"max_ms"`
	}
}

// join gives users places in the order of the arguments, at one API after the other.
func (h *house) join(users ...string) {
	h.Helper()
	for i, user := range users {
		if a := h.as(user, i, "POST", place, ""); a.Status != http.StatusCreated {
			h.Fatalf("%s: %v", user, a)
		}
	}
}

// look returns a user's place.
func (h *house) look(user string) (p seen) {
	h.Helper()
	a := h.as(user, 0, "GET", place, "")
	if a.Status != http.StatusOK {
		h.Fatalf("%s: %v", user, a)
	}
	a.Into(h.T, &p)
	return p
}

// claim takes a user's turn, and returns the status.
func (h *house) claim(user string, api int) int {
	return h.as(user, api, "POST", place+"/claim", "").Status
}

// order orders a ticket, and returns the decision.
func (h *house) order(user string) servetest.Answer {
	for {
		a := h.as(user, 1, "POST", "/v1/sales/"+sale+"/orders", `{"item":"ticket"}`)
		if a.Err != nil || a.Status != http.StatusServiceUnavailable {
			return a
		}
	}
}

// verify checks what the room says of itself, and the sale if there is one.
func (h *house) verify(paths ...string) {
	h.Helper()
	for _, path := range append(paths, room+"/verify") {
		if a := h.operate(http.StatusOK, "GET", path, ""); !strings.Contains(string(a.Body), `{"ok":true`) {
			h.Errorf("%s: %v", path, a)
		}
	}
}

// ownClock makes the database's clock, which waiting rooms follow, one that stands still except for later. Call it before an API starts.
func (h *house) ownClock(at time.Time) {
	h.Helper()
	h.at = at
	h.exec(`CREATE SCHEMA clock`)
	h.exec(`CREATE TABLE clock.hands AS SELECT $1::bigint AS ms`, h.at.UnixMilli())
	h.exec(`CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT to_timestamp(ms / 1000.0) FROM clock.hands'`)
	// A name is looked up in pg_catalog first unless the path says otherwise.
	h.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, clock, pg_catalog', current_database()); END $$`)
}

// step is below the time after which a room takes the silence of all processes for an outage.
const step = 2 * time.Second

// later sets the clock forward, and waits after each step until every open room has given the turns of that time.
func (h *house) later(by time.Duration) {
	h.Helper()
	for ; by > 0; by -= step {
		h.at = h.at.Add(min(by, step))
		h.exec(`UPDATE clock.hands SET ms = $1`, h.at.UnixMilli())
		h.until("the room has ticked", `SELECT coalesce(bool_and(ticked_at >= $1), true) FROM waiting_rooms WHERE gather_at <= $1 AND ended = ''`, h.at.UnixMilli())
	}
}

// seenByAll waits until every API has read the room as it is now.
func (h *house) seenByAll() {
	h.Helper()
	text := rand.Text()
	h.exec(`UPDATE waiting_rooms SET message = $1`, text)
	for _, api := range h.apis {
		servetest.Until(h.T, http.StatusOK, func() servetest.Answer {
			a := servetest.Call("GET", api.URL("public")+room, "")
			if !strings.Contains(string(a.Body), text) {
				a.Status = 0
			}
			return a
		})
	}
}

func (h *house) exec(query string, args ...any) {
	h.Helper()
	if _, err := h.db.ExecContext(h.Context(), query, args...); err != nil {
		h.Fatalf("%s: %v", query, err)
	}
}

// until waits until a query returns true.
func (h *house) until(what, query string, args ...any) {
	h.Helper()
	servetest.Until(h.T, http.StatusOK, func() servetest.Answer {
		ok := false
		if err := h.db.QueryRowContext(h.Context(), query, args...).Scan(&ok); err != nil || !ok {
			return servetest.Answer{Err: fmt.Errorf("not yet: %s: %w", what, err)}
		}
		return servetest.Answer{Status: http.StatusOK}
	})
}

// people returns the names of n users.
func people(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("user-%d", i)
	}
	return all
}
