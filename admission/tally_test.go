package admission_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
)

// A desk asks one store about one subject, without a gate.
type desk struct {
	testing.TB
	store admission.Store
	clk   *clock // nil: the store's own
	ns    string
}

func newDesk(t testing.TB, open opener) *desk {
	clk := newClock()
	return &desk{t, open(clk), clk, namespace()}
}

// tally returns one of the subject "ann", whose keys look as a gate's.
func (d *desk) tally(a admission.Algorithm, limit int, window time.Duration) admission.Tally {
	return d.tallyOf("ann", a, limit, window)
}

func (d *desk) tallyOf(subject string, a admission.Algorithm, limit int, window time.Duration) admission.Tally {
	return admission.Tally{
		Key: d.ns + ":w:{" + subject + "}:" + string(a[len(a)-4:]) + "-win", Subject: subject, Algorithm: a, Limit: limit,
		Window: admission.Window{Length: window}, Cost: 1, Burst: limit, Records: d.ns + ":q:{" + subject + "}",
	}
}

// based gives t a first stage.
func based(t admission.Tally, limit int, window time.Duration) admission.Tally {
	t.Base = &admission.Base{Key: t.Key + ":b", Limit: limit, Window: admission.Window{Length: window}}
	return t
}

// striking gives t strikes.
func striking(t admission.Tally, limit int, window time.Duration) admission.Tally {
	t.Strikes = &admission.Strikes{Key: t.Key + ":s", Limit: limit, Window: window}
	return t
}

func costing(t admission.Tally, cost int) admission.Tally { t.Cost = cost; return t }

func rejecting(t admission.Tally) admission.Tally { t.CountRejected = true; return t }

// ask puts a call to the store.
func (d *desk) ask(call admission.Call) []admission.Count {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), patience)
	defer cancel()
	counts, err := d.store.Decide(ctx, call)
	if err != nil || len(counts) != len(call.Tallies) {
		d.Fatalf("Decide(%+v) = %+v, %v", call, counts, err)
	}
	if d.clk != nil && call.Request == "" {
		for _, c := range counts {
			if !c.At.Equal(d.clk.Now().Truncate(time.Microsecond)) {
				d.Fatalf("%s decided at %v, want %v", call.Mode, c.At, d.clk.Now())
			}
		}
	}
	return counts
}

func (d *desk) do(mode admission.Mode, tallies ...admission.Tally) []admission.Count {
	d.Helper()
	return d.ask(admission.Call{Mode: mode, Tallies: tallies})
}

// one is for a single tally.
func (d *desk) one(mode admission.Mode, t admission.Tally) admission.Count {
	d.Helper()
	return d.do(mode, t)[0]
}

// left is how many units the tally has left.
func (d *desk) left(t admission.Tally) int {
	d.Helper()
	return d.one(admission.Check, t).Remaining
}

// all algorithms that count, with limit units in window and no more at once.
func (d *desk) all(limit int, window time.Duration) []admission.Tally {
	two := d.tally(admission.TwoStage, limit, window)
	return []admission.Tally{
		d.tally(admission.SlidingLog, limit, window), d.tally(admission.SlidingCounter, limit, window),
		d.tally(admission.FixedWindow, limit, window), d.tally(admission.GCRA, limit, window),
		based(two, 0, window), // a base of nothing leaves the log
	}
}
