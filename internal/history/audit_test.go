package history_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidegate/tidegate/internal/history"
)

// change is the n-th of a log in which two come in every second.
func change(n int) history.Change {
	return history.Change{
		ID: fmt.Sprintf("id-%04d", n), At: time.Date(2030, 1, 2, 3, 4, 5+n/2, 6e6, time.UTC), Actor: "ann", Action: "put-ban",
		Target: "/v1/bans/user/bob's \u202e🎟️", Detail: `{"reason":"it's \u0000"}`, Outcome: "done", RequestID: "r",
	}
}

func TestChangesNewestFirst(t *testing.T) {
	each(t, func(t *testing.T, h *history.History) {
		log := h.Changes()
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
	each(t, func(t *testing.T, h *history.History) {
		log := h.Changes()
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
