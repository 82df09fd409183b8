package serve

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/internal/livepage"
	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// declared waits until the database has a definition. Before that, the program says what its file says.
func declared(t *testing.T, database string) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	for stored := false; !stored; {
		if err := db.QueryRow(t.Context(), `SELECT count(*) > 0 FROM semaphores`).Scan(&stored); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPermitsWithoutRedis: without Redis permits are neither granted nor renewed, and none is reported as lost.
func TestPermitsWithoutRedis(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	env, _ := cappedEnv(t, server.URL(), "report: {limit: 2}")
	c := startCapped(t, env)
	declared(t, env("DATABASE_URL"))
	held := c.acquire("report", `{"holder":"a"}`)
	server.Kill()
	for _, call := range [][3]string{
		{"POST", "/report/permits", `{"holder":"b"}`},
		{"POST", "/report/permits", `{"holder":"b","wait_ms":200}`},
		{"PUT", "/report/permits/" + held.ID, ""},
		{"DELETE", "/report/permits/" + held.ID, ""},
		{"GET", "/report", ""},
		{"GET", "", ""},
		{"PUT", "/report", `{"limit":5}`},
	} {
		a := c.want(http.StatusServiceUnavailable, call[0], call[1], call[2])
		if p := problemIn(t, a); p.Reason != "store_unavailable" || a.Header.Get("Retry-After") == "" {
			t.Errorf("%v: %v", call, a)
		}
	}
}

// TestRedisLosesPermits: a Redis that lost its data gets the definitions again, including operators'. Holders register again by
// renewing, and no new permit is granted meanwhile.
func TestRedisLosesPermits(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	env, _ := cappedEnv(t, server.URL(), "report: {limit: 1}, other: {limit: 1}")
	c := startCapped(t, env)
	c.want(http.StatusOK, "PUT", "/report", `{"limit":2,"lease_ms":20000}`)
	held, other := c.acquire("report", `{"holder":"a"}`), c.acquire("other", `{"holder":"b"}`)
	server.RestartEmpty()
	c.until("report", func(s standing) bool {
		return s.Limit == 2 && s.LeaseMS == 20000 && s.Source == "overridden" && s.InUse == 0
	})
	full := c.want(http.StatusServiceUnavailable, "POST", "/report/permits", `{"holder":"b"}`)
	if p := problemIn(t, full); p.Reason != "at_capacity" {
		t.Errorf("%v", full)
	}
	if seconds, err := strconv.Atoi(full.Header.Get("Retry-After")); err != nil || seconds < 5 || seconds > 20 {
		t.Errorf("Retry-After %q, want what is left of the lease", full.Header.Get("Retry-After"))
	}
	// Redis would accept any id now, so the API must only pass on ids that it has issued.
	signature := held.ID[strings.LastIndex(held.ID, "."):]
	for _, made := range []string{"xxxxxxxxxxxxxxxxxxxxxx.1.2", "xxxxxxxxxxxxxxxxxxxxxx.1.2" + signature, strings.TrimSuffix(held.ID, signature), other.ID} {
		lost := c.want(http.StatusGone, "PUT", "/report/permits/"+made, "")
		if p := problemIn(t, lost); p.Reason != "permit_lost" {
			t.Errorf("%v", lost)
		}
		wrong := problemIn(t, c.want(http.StatusUnprocessableEntity, "DELETE", "/report/permits/"+made, ""))
		if len(wrong.Errors) != 1 || wrong.Errors[0].Location != "path.id" {
			t.Errorf("%+v", wrong)
		}
	}
	c.want(http.StatusOK, "PUT", "/report/permits/"+held.ID, "")
	if s := c.standing("report"); s.InUse != 1 || s.Holders[0].FencingToken != held.Token {
		t.Errorf("%+v", s)
	}
}

// TestPermitsWithoutPostgres: without the database permits work, and definitions cannot be changed.
func TestPermitsWithoutPostgres(t *testing.T) {
	t.Parallel()
	database := testenv.StartPostgres(t)
	env, _ := cappedOver(t, environment(testenv.Redis(t), database.URL()), "report: {limit: 1}")
	c := startCapped(t, env)
	declared(t, database.URL())
	c.until("report", func(s standing) bool { return s.Source == "file" })
	database.Kill()
	held := c.acquire("report", `{"holder":"a"}`)
	c.want(http.StatusOK, "PUT", "/report/permits/"+held.ID, "")
	if s := c.standing("report"); s.InUse != 1 || s.Source != "file" {
		t.Errorf("%+v", s)
	}
	c.want(http.StatusNoContent, "DELETE", "/report/permits/"+held.ID, "")
	for _, call := range [][3]string{{"PUT", "/report", `{"limit":5}`}, {"DELETE", "/report", ""}, {"POST", "/none/permits", `{"holder":"a"}`}, {"GET", "", ""}} {
		a := c.want(http.StatusServiceUnavailable, call[0], call[1], call[2])
		if p := problemIn(t, a); p.Reason != "store_unavailable" {
			t.Errorf("%v: %v", call, a)
		}
	}
	if s := c.standing("report"); s.Limit != 1 {
		t.Errorf("%+v", s)
	}
}

// TestThePageNamesWhatHappenedToRedis: a Redis that was restarted with its data has not lost them.
func TestThePageNamesWhatHappenedToRedis(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	s := openShop(t, startAPI(t, environment(server.URL(), databases.Postgres(t))), 1)
	permit := func(holder string) {
		t.Helper()
		servetest.Until(t, http.StatusCreated, func() servetest.Answer {
			return servetest.Once("POST", s.URL("internal")+"/v1/semaphores/report/permits", `{"holder":"`+holder+`"}`)
		})
	}
	permit("nightly")
	const restarted, lost = "Redis was restarted or replaced and kept its data", "Redis lost its data"
	shows := func(want, never string) {
		t.Helper()
		s.frame(func(f *livepage.Frame) bool {
			text := strings.Join(f.Process.Degraded, "\n")
			if strings.Contains(text, never) {
				t.Fatalf("the page shows %q, want %q", text, want)
			}
			return strings.Contains(text, "semaphore report grants no permits yet: "+want)
		})
	}
	server.Restart()
	shows(restarted, lost)
	permit("weekly") // grants have resumed
	server.RestartEmpty()
	shows(lost, restarted)
}
