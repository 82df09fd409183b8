package loginlog_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/loginlog"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
	"github.com/tidegate/tidegate/login"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// each runs test over both databases.
func each(t *testing.T, test func(t *testing.T, log *loginlog.Log)) {
	databases.Each(t, loginlog.Postgres, loginlog.SQLite, func(t *testing.T, db *sql.DB, open func(*sql.DB) *loginlog.Log) { test(t, open(db)) })
}

var epoch = time.Date(2030, 1, 2, 3, 4, 5, 6e6, time.UTC)

// event is the n-th of a history in which two come in every second, by turns of two names and of none.
func event(n int) login.Event {
	e := login.Event{
		ID: fmt.Sprintf("id-%04d", n), At: epoch.Add(time.Duration(n/2) * time.Second), Rule: "login-name-3-in-1m-challenge", Count: admission.CountName,
		Action: admission.LoginChallenge, Factor: "password", Name: []string{"", "ANN", "BOB"}[n%3], IP: "192.0.2.x", Times: n + 1, Shadow: n%2 == 1,
	}
	if n%4 != 0 {
		e.Until = e.At.Add(time.Hour)
	}
	return e
}

func list(t *testing.T, log *loginlog.Log, reference, after string, limit int) []login.Event {
	t.Helper()
	events, err := log.List(t.Context(), reference, after, limit)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func TestHistory(t *testing.T) {
	each(t, func(t *testing.T, log *loginlog.Log) {
		if got := list(t, log, "", "", 10); len(got) != 0 {
			t.Errorf("a new history has %v", got)
		}
		var told, want []login.Event
		for n := range 10 {
			told = append(told, event(n))
			want = append([]login.Event{event(n)}, want...)
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
				page := list(t, log, reference, after, 2)
				if got = append(got, page...); len(page) < 2 {
					break
				}
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateApproxTime(0), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%q, newest first (-want +got):\n%s", reference, diff)
			}
		}
		if got := list(t, log, "", "unknown", 3); len(got) != 0 {
			t.Errorf("after an unknown event there are %v", got)
		}
	})
}

// What has no end has none in the database either, where others read it.
func TestNoEndIsNull(t *testing.T) {
	databases.Each(t, loginlog.Postgres, loginlog.SQLite, func(t *testing.T, db *sql.DB, open func(*sql.DB) *loginlog.Log) {
		if err := open(db).Record(t.Context(), []login.Event{event(0), event(1)}); err != nil {
			t.Fatal(err)
		}
		var id string
		if err := db.QueryRowContext(t.Context(), `SELECT id FROM login_events WHERE until IS NULL`).Scan(&id); err != nil || id != event(0).ID {
			t.Errorf("%q, %v", id, err)
		}
	})
}

// Any number of processes tell of the same events at once.
func TestToldByMany(t *testing.T) {
	each(t, func(t *testing.T, log *loginlog.Log) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for n := range 20 {
					if err := log.Record(t.Context(), []login.Event{event(n), event(n + 1)}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if got := list(t, log, "", "", 1000); len(got) != 21 {
			t.Errorf("%d events, want 21", len(got))
		}
	})
}

// What cannot be kept as a whole is told again as a whole.
func TestAllOrNone(t *testing.T) {
	each(t, func(t *testing.T, log *loginlog.Log) {
		wrong := event(1)
		wrong.Action = "applaud"
		if err := log.Record(t.Context(), []login.Event{event(0), wrong}); err == nil {
			t.Error("kept an action that there is not")
		}
		if got := list(t, log, "", "", 10); len(got) != 0 {
			t.Errorf("half of it is kept: %v", got)
		}
	})
}

func TestBannedFor(t *testing.T) {
	each(t, func(t *testing.T, log *loginlog.Log) {
		var events []login.Event
		for n, factor := range []string{"password", "otp", "otp", "reset"} {
			e := event(n)
			e.Factor = factor
			if factor != "reset" {
				e.Action = admission.LoginBan
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

func TestUnavailable(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "gone.db"))
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	log := loginlog.SQLite(db)
	if _, err := log.List(t.Context(), "", "", 1); !errors.Is(err, loginlog.ErrUnavailable) {
		t.Errorf("list: %v", err)
	}
	if _, err := log.BannedFor(t.Context(), "192.0.2.x"); !errors.Is(err, loginlog.ErrUnavailable) {
		t.Errorf("banned for: %v", err)
	}
}
