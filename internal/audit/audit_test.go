package audit_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// each runs test over both databases.
func each(t *testing.T, test func(t *testing.T, log *audit.Log)) {
	databases.Each(t, audit.Postgres, audit.SQLite, func(t *testing.T, db *sql.DB, open func(*sql.DB) *audit.Log) { test(t, open(db)) })
}

// event is the n-th of a log in which two come in every second.
func event(n int) audit.Event {
	return audit.Event{
		ID: fmt.Sprintf("id-%04d", n), At: time.Date(2030, 1, 2, 3, 4, 5+n/2, 6e6, time.UTC), Actor: "ann", Action: "put-ban",
		Target: "/v1/bans/user/bob's \u202e🎟️", Detail: `{"reason":"it's \u0000"}`, Outcome: "done", RequestID: "r",
	}
}

func TestNewestFirst(t *testing.T) {
	each(t, func(t *testing.T, log *audit.Log) {
		var want []audit.Event
		for n := range 7 {
			want = append([]audit.Event{event(n)}, want...)
			if err := log.Record(t.Context(), event(n)); err != nil {
				t.Fatal(err)
			}
		}
		list := func(after string) []audit.Event {
			t.Helper()
			page, err := log.List(t.Context(), after, 3)
			if err != nil {
				t.Fatal(err)
			}
			return page
		}
		var got []audit.Event
		for after := ""; ; after = got[len(got)-1].ID {
			page := list(after)
			if got = append(got, page...); len(page) < 3 {
				break
			}
		}
		sameTime := cmp.Comparer(func(x, y time.Time) bool { return x.Equal(y) })
		if diff := cmp.Diff(want, got, sameTime); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if page := list("unknown"); len(page) != 0 {
			t.Errorf("after an unknown event there are %v", page)
		}
	})
}

// A log is only added to: nobody takes another's row.
func TestNoEventReplacesAnother(t *testing.T) {
	each(t, func(t *testing.T, log *audit.Log) {
		first, second := event(1), event(1)
		second.Actor = "mallory"
		if err := log.Record(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		if err := log.Record(t.Context(), second); err == nil {
			t.Error("an event of the same ID is kept")
		}
		if page, err := log.List(t.Context(), "", 10); err != nil || len(page) != 1 || page[0].Actor != "ann" {
			t.Errorf("%v %v", page, err)
		}
	})
}

func TestUnavailable(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "audit.db"))
	if err != nil {
		t.Fatal(err)
	}
	log := audit.SQLite(db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := log.List(t.Context(), "", 1); !errors.Is(err, audit.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if err := log.Record(t.Context(), event(1)); err == nil {
		t.Error("kept nowhere")
	}
}
