package history_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/history"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// each runs test over both databases.
func eachBans(t *testing.T, test func(t *testing.T, log history.Bans)) {
	databases.Each(t, history.Postgres, history.SQLite, func(t *testing.T, db *sql.DB, open func(*sql.DB) *history.History) {
		test(t, open(db).Bans())
	})
}

var epoch = time.Date(2030, 1, 2, 3, 4, 5, 6e6, time.UTC)

// event is the n-th of a history in which two come in every second.
func ban(n int) admission.BanEvent {
	at := epoch.Add(time.Duration(n/2) * time.Second)
	return admission.BanEvent{
		ID: fmt.Sprintf("origin-%04d", n), At: at, Lifted: n%2 == 1,
		Ban: admission.Ban{
			BanTarget: admission.BanTarget{Kind: admission.BanNetwork, Value: "203.0.113.0/24"}, Reason: "it's 🎟️", Rule: "r",
			Since: at, Until: at.Add(time.Hour), Times: n + 1,
		},
	}
}

func listBans(t *testing.T, log history.Bans, after string, limit int) []admission.BanEvent {
	t.Helper()
	events, err := log.List(t.Context(), after, limit)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func TestBans(t *testing.T) {
	eachBans(t, func(t *testing.T, log history.Bans) {
		if got := listBans(t, log, "", 10); len(got) != 0 {
			t.Errorf("a new history has %v", got)
		}
		var told, want []admission.BanEvent
		for n := range 7 {
			told = append(told, ban(n))
			want = append([]admission.BanEvent{ban(n)}, want...)
		}
		if err := log.Record(t.Context(), told[:5]); err != nil {
			t.Fatal(err)
		}
		if err := log.Record(t.Context(), told[3:]); err != nil { // two of them once more
			t.Fatal(err)
		}
		var got []admission.BanEvent
		for after := ""; ; after = got[len(got)-1].ID {
			page := listBans(t, log, after, 3)
			if got = append(got, page...); len(page) < 3 {
				break
			}
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateApproxTime(0)); diff != "" {
			t.Errorf("newest first (-want +got):\n%s", diff)
		}
		if got := listBans(t, log, "unknown", 3); len(got) != 0 {
			t.Errorf("after an unknown event there are %v", got)
		}
	})
}

// Any number of processes tell of the same events at once.
func TestBansToldByMany(t *testing.T) {
	eachBans(t, func(t *testing.T, log history.Bans) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for n := range 20 {
					if err := log.Record(t.Context(), []admission.BanEvent{ban(n), ban(n + 1)}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if got := listBans(t, log, "", 1000); len(got) != 21 {
			t.Errorf("%d events, want 21", len(got))
		}
	})
}

// What cannot be kept as a whole is told again as a whole.
func TestBansAllOrNone(t *testing.T) {
	eachBans(t, func(t *testing.T, log history.Bans) {
		wrong := ban(1)
		wrong.Kind = "planet"
		if err := log.Record(t.Context(), []admission.BanEvent{ban(0), wrong}); err == nil {
			t.Error("kept a ban of a planet")
		}
		if got := listBans(t, log, "", 10); len(got) != 0 {
			t.Errorf("half of it is kept: %v", got)
		}
	})
}

func TestBansUnavailable(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "gone.db"))
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	log := history.SQLite(db).Bans()
	if _, err := log.List(t.Context(), "", 1); !errors.Is(err, history.ErrUnavailable) {
		t.Errorf("list: %v", err)
	}
}
