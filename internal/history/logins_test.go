package history_test

import (
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidegate/tidegate/internal/history"
	"github.com/tidegate/tidegate/internal/testenv/databases"
	"github.com/tidegate/tidegate/login"
)

// failure is the n-th event of a history in which two come in every second, by turns of two names and of none.
func failure(n int) login.Event {
	e := login.Event{
		ID: fmt.Sprintf("id-%04d", n), At: epoch.Add(time.Duration(n/2) * time.Second), Rule: "login-name-3-in-1m-challenge", Count: login.CountName,
		Action: login.Challenge, Factor: "password", Name: []string{"", "ANN", "BOB"}[n%3], IP: "192.0.2.x", Times: n + 1, Shadow: n%2 == 1,
	}
	if n%4 != 0 {
		e.Until = e.At.Add(time.Hour)
	}
	return e
}

func listLogins(t *testing.T, log history.Logins, reference, after string, limit int) []login.Event {
	t.Helper()
	events, err := log.List(t.Context(), reference, after, limit)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func TestLogins(t *testing.T) {
	each(t, func(t *testing.T, h *history.History) {
		log := h.Logins()
		if got := listLogins(t, log, "", "", 10); len(got) != 0 {
			t.Errorf("a new history has %v", got)
		}
		var told, want []login.Event
		for n := range 10 {
			told = append(told, failure(n))
			want = append([]login.Event{failure(n)}, want...)
		}
		for _, part := range [][]login.Event{told[:5], told[3:]} { // two of them once more
			if err := log.Record(t.Context(), part); err != nil {
				t.Fatal(err)
			}
		}
		for _, reference := range []string{"", "ANN", "BOB", "EVE"} {
			want := slices.DeleteFunc(slices.Clone(want), func(e login.Event) bool { return reference != "" && e.Name != reference })
			var got []login.Event
			for after := ""; ; after = got[len(got)-1].ID {
				page := listLogins(t, log, reference, after, 2)
				if got = append(got, page...); len(page) < 2 {
					break
				}
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateApproxTime(0), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%q, newest first (-want +got):\n%s", reference, diff)
			}
		}
		if got := listLogins(t, log, "", "unknown", 3); len(got) != 0 {
			t.Errorf("after an unknown event there are %v", got)
		}
	})
}

// What has no end has none in the database either, where others read it.
func TestNoEndIsNull(t *testing.T) {
	databases.Each(t, history.Postgres, history.SQLite, func(t *testing.T, db *sql.DB, open func(*sql.DB) *history.History) {
		if err := open(db).Logins().Record(t.Context(), []login.Event{failure(0), failure(1)}); err != nil {
			t.Fatal(err)
		}
		var id string
		if err := db.QueryRowContext(t.Context(), `SELECT id FROM login_events WHERE until IS NULL`).Scan(&id); err != nil || id != failure(0).ID {
			t.Errorf("%q, %v", id, err)
		}
	})
}

func TestBannedFor(t *testing.T) {
	each(t, func(t *testing.T, h *history.History) {
		log := h.Logins()
		var events []login.Event
		for n, factor := range []string{"password", "otp", "otp", "reset"} {
			e := failure(n)
			e.Factor = factor
			if factor != "reset" {
				e.Action = login.Ban
			}
			events = append(events, e)
		}
		if err := log.Record(t.Context(), events); err != nil {
			t.Fatal(err)
		}
		for ip, want := range map[string][]string{"192.0.2.x": {"otp", "password"}, "192.0.3.x": nil, "": nil} {
			got, err := log.BannedFor(t.Context(), ip)
			slices.Sort(got)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%q: %v %v, want %v", ip, got, err, want)
			}
		}
	})
}
