package history_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidegate/tidegate/internal/history"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// each runs test over both databases.
func eachChanges(t *testing.T, test func(t *testing.T, log history.Changes)) {
	databases.Each(t, history.Postgres, history.SQLite, func(t *testing.T, db *sql.DB, open func(*sql.DB) *history.History) {
		test(t, open(db).Changes())
	})
}

// event is the n-th of a log in which two come in every second.
func change(n int) history.Change {
	return history.Change{
		ID: fmt.Sprintf("id-%04d", n), At: time.Date(2030, 1, 2, 3, 4, 5+n/2, 6e6, time.UTC), Actor: "ann", Action: "put-ban",
		Target: "/v1/bans/user/bob's \u202e🎟️", Detail: `{"reason":"it's \u0000"}`, Outcome: "done", RequestID: "r",
	}
}

func TestChangesNewestFirst(t *testing.T) {
	eachChanges(t, func(t *testing.T, log history.Changes) {
		var want []history.Change
		for n := range 7 {
			want = append([]history.Change{change(n)}, want...)
			if err := log.Record(t.Context(), change(n)); err != nil {
				t.Fatal(err)
			}
		}
		list := func(after string) []history.Change {
			t.Helper()
			page, err := log.List(t.Context(), after, 3)
			if err != nil {
				t.Fatal(err)
			}
			return page
		}
		var got []history.Change
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
func TestNoChangeReplacesAnother(t *testing.T) {
	eachChanges(t, func(t *testing.T, log history.Changes) {
		first, second := change(1), change(1)
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

func TestChangesUnavailable(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "audit.db"))
	if err != nil {
		t.Fatal(err)
	}
	log := history.SQLite(db).Changes()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := log.List(t.Context(), "", 1); !errors.Is(err, history.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if err := log.Record(t.Context(), change(1)); err == nil {
		t.Error("kept nowhere")
	}
}
