package history_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/history"
)

var epoch = time.Date(2030, 1, 2, 3, 4, 5, 6e6, time.UTC)

// ban is the n-th event of a history in which two come in every second.
func ban(n int) bans.Event {
	at := epoch.Add(time.Duration(n/2) * time.Second)
	return bans.Event{
		ID: fmt.Sprintf("origin-%04d", n), At: at, Lifted: n%2 == 1,
		Ban: bans.Ban{
			Target: bans.Target{Kind: bans.Network, Value: "203.0.113.0/24"}, Reason: "it's 🎟️", Rule: "r",
			Since: at, Until: at.Add(time.Hour), Times: n + 1,
		},
	}
}

func listBans(t *testing.T, log history.Bans, after string, limit int) []bans.Event {
	t.Helper()
	events, err := log.List(t.Context(), after, limit)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func TestBans(t *testing.T) {
	each(t, func(t *testing.T, h *history.History) {
		log := h.Bans()
		if got := listBans(t, log, "", 10); len(got) != 0 {
			t.Errorf("a new history has %v", got)
		}
		var told, want []bans.Event
		for n := range 7 {
			told = append(told, ban(n))
			want = append([]bans.Event{ban(n)}, want...)
		}
		if err := log.Record(t.Context(), told[:5]); err != nil {
			t.Fatal(err)
		}
		if err := log.Record(t.Context(), told[3:]); err != nil { // two of them once more
			t.Fatal(err)
		}
		var got []bans.Event
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
