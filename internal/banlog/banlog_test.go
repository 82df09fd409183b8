package banlog_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/banlog"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// each runs test over both databases.
func each(t *testing.T, test func(t *testing.T, log *banlog.Log)) {
	databases.Each(t, banlog.Postgres, banlog.SQLite, func(t *testing.T, db *sql.DB, open func(*sql.DB) *banlog.Log) { test(t, open(db)) })
}

var epoch = time.Date(2030, 1, 2, 3, 4, 5, 6e6, time.UTC)

// event is the n-th of a history in which two come in every second.
func event(n int) admission.BanEvent {
	at := epoch.Add(time.Duration(n/2) * time.Second)
	return admission.BanEvent{
		ID: fmt.Sprintf("origin-%04d", n), At: at, Lifted: n%2 == 1,
		Ban: admission.Ban{
			BanTarget: admission.BanTarget{Kind: admission.BanNetwork, Value: "203.0.113.0/24"}, Reason: "it's 🎟️", Rule: "r",
			Since: at, Until: at.Add(time.Hour), Times: n + 1,
		},
	}
}

func list(t *testing.T, log *banlog.Log, after string, limit int) []admission.BanEvent {
	t.Helper()
	events, err := log.List(t.Context(), after, limit)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func TestHistory(t *testing.T) {
	each(t, func(t *testing.T, log *banlog.Log) {
		if got := list(t, log, "", 10); len(got) != 0 {
			t.Errorf("a new history has %v", got)
		}
		var told, want []admission.BanEvent
		for n := range 7 {
			told = append(told, event(n))
			want = append([]admission.BanEvent{event(n)}, want...)
		}
		if err := log.Record(t.Context(), told[:5]); err != nil {
			t.Fatal(err)
		}
		if err := log.Record(t.Context(), told[3:]); err != nil { // two of them once more
			t.Fatal(err)
		}
		var got []admission.BanEvent
		for after := ""; ; after = got[len(got)-1].ID {
			page := list(t, log, after, 3)
			if got = append(got, page...); len(page) < 3 {
				break
			}
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateApproxTime(0)); diff != "" {
			t.Errorf("newest first (-want +got):\n%s", diff)
		}
		if got := list(t, log, "unknown", 3); len(got) != 0 {
			t.Errorf("after an unknown event there are %v", got)
		}
	})
}

// Any number of processes tell of the same events at once.
func TestToldByMany(t *testing.T) {
	each(t, func(t *testing.T, log *banlog.Log) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for n := range 20 {
					if err := log.Record(t.Context(), []admission.BanEvent{event(n), event(n + 1)}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if got := list(t, log, "", 1000); len(got) != 21 {
			t.Errorf("%d events, want 21", len(got))
		}
	})
}

// What cannot be kept as a whole is told again as a whole.
func TestAllOrNone(t *testing.T) {
	each(t, func(t *testing.T, log *banlog.Log) {
		wrong := event(1)
		wrong.Kind = "planet"
		if err := log.Record(t.Context(), []admission.BanEvent{event(0), wrong}); err == nil {
			t.Error("kept a ban of a planet")
		}
		if got := list(t, log, "", 10); len(got) != 0 {
			t.Errorf("half of it is kept: %v", got)
		}
	})
}

func TestUnavailable(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "gone.db"))
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	log := banlog.SQLite(db)
	if _, err := log.List(t.Context(), "", 1); !errors.Is(err, banlog.ErrUnavailable) {
		t.Errorf("list: %v", err)
	}
}
