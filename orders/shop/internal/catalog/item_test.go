package catalog

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
)

func TestMemoryRefusesOnlyWhatWasTrueWhenItLooked(t *testing.T) {
	now := time.Now()
	sale := orders.Sale{Switch: orders.SwitchOpen, StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour)}
	paused := sale
	paused.Switch = orders.SwitchPaused
	early := sale
	early.StartsAt = now.Add(time.Minute)
	soon := sale
	soon.StartsAt = now.Add(nearHours / 2)
	fresh := snapshot{at: now, now: now, switched: orders.SwitchOpen, complete: true}
	with := func(change func(*snapshot)) *snapshot {
		g := fresh
		change(&g)
		return &g
	}
	for name, c := range map[string]struct {
		sale     orders.Sale
		snapshot *snapshot
		want     orders.Reason
	}{
		"never looked":                      {sale, nil, ""},
		"nothing free":                      {sale, &fresh, orders.ReasonSoldOut},
		"nothing free, long ago":            {sale, with(func(g *snapshot) { g.at = now.Add(-snapshotTTL - time.Second) }), ""},
		"some free":                         {sale, with(func(g *snapshot) { g.free = 1 }), ""},
		"holders still unknown":             {sale, with(func(g *snapshot) { g.complete = false }), ""},
		"recovering":                        {sale, with(func(g *snapshot) { g.recovering = true }), ""},
		"paused":                            {paused, with(func(g *snapshot) { g.switched = orders.SwitchPaused }), orders.ReasonPaused},
		"paused after the look":             {paused, &fresh, ""},
		"resumed after the look":            {sale, with(func(g *snapshot) { g.switched = orders.SwitchPaused }), ""},
		"not started":                       {early, &fresh, orders.ReasonNotStarted},
		"about to start":                    {soon, &fresh, ""},
		"nothing free before it was paused": {paused, with(func(g *snapshot) { g.free = 0 }), ""},
	} {
		if got, _ := Refusal(&c.sale, c.snapshot, now); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
