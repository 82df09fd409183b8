package metrics_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/metrics"
	"github.com/tidegate/tidegate/waitingroom"
)

// rooms are the waiting rooms of a test.
type rooms struct {
	all []waitingroom.Status
	err error
}

func (r rooms) Rooms(context.Context) ([]waitingroom.Status, error) { return r.all, r.err }

func status(name string, phase waitingroom.Phase) waitingroom.Status {
	return waitingroom.Status{Definition: waitingroom.Definition{Room: name}, Phase: phase, ByLane: []waitingroom.LaneStatus{{Joined: 5, Served: 3, Waiting: 2}}, Brake: 1}
}

// A closed room has no metrics, and while the database does not answer there are none.
func TestRooms(t *testing.T) {
	m := metrics.New("test")
	sells := status("shop", waitingroom.PhaseServing)
	sells.Sale, sells.Brake = "spring", 0.25
	sells.ByLane = []waitingroom.LaneStatus{{Lane: waitingroom.Lane{Name: "members"}, Joined: 9, Served: 8, Waiting: 1}, {Lane: waitingroom.Lane{Name: "all"}, Joined: 7}}
	of := rooms{all: []waitingroom.Status{status("door", waitingroom.PhaseRecovering), status("old", waitingroom.PhaseClosed), sells}}
	m.Rooms(of)
	got := scrape(t, m)
	for name, want := range map[string]string{
		`joined_total{lane="",room="door"}`: "5", `served_total{lane="",room="door"}`: "3", `waiting{lane="",room="door"}`: "2", `phase{phase="recovering",room="door"}`: "1",
		`joined_total{lane="members",room="shop"}`: "9", `served_total{lane="members",room="shop"}`: "8", `waiting{lane="members",room="shop"}`: "1", `joined_total{lane="all",room="shop"}`: "7",
		`waiting{lane="",room="old"}`: "", `brake{room="shop"}`: "0.25", `brake{room="door"}`: "1",
	} {
		if n := got["tidegate_room_"+name]; n != want {
			t.Errorf("%s is %q, want %q", name, n, want)
		}
	}
	if all := m.Degraded(); !slices.ContainsFunc(all, func(text string) bool { return strings.Contains(text, "waiting room door stands still") }) {
		t.Errorf("%v", all)
	}
	m = metrics.New("test")
	m.Rooms(rooms{all: of.all, err: errors.New("away")})
	for name := range scrape(t, m) {
		if strings.HasPrefix(name, "tidegate_room") {
			t.Errorf("%s while nobody knows it", name)
		}
	}
}
