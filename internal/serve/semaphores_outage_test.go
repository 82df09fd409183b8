package serve

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/testenv"
)

// Without Redis there is no permit and no renewal, and no word that somebody's permit is over.
func TestPermitsWithoutRedis(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	env, _ := cappedEnv(t, server.URL(), "report: {limit: 2}")
	c := startCapped(t, env)
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

// A Redis that lost everything is told of the definitions again, operators' too. Who holds a permit registers again by renewing it, and nobody
// gets one meanwhile.
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
	// It would believe any id now, so only ids that were given out get to it.
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

// Without the database permits go on, and nothing is defined.
func TestPermitsWithoutPostgres(t *testing.T) {
	t.Parallel()
	database := testenv.StartPostgres(t)
	env, _ := cappedOver(t, environment(testenv.Redis(t), database.URL()), "report: {limit: 1}")
	c := startCapped(t, env)
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
