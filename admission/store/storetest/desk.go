package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission/internal/algorithm"
	"github.com/tidegate/tidegate/admission/store"
)

// A Desk asks one store about one subject, without a gate. Make it with NewDesk.
type Desk struct {
	testing.TB
	Store     store.Store
	Clock     *Clock // nil: the store's own
	Namespace string // of its keys
}

// NewDesk returns a Desk with a unique namespace. A nil clock means the store's own.
func NewDesk(t testing.TB, st store.Store, clk *Clock) *Desk { return &Desk{t, st, clk, Namespace()} }

func newDesk(t testing.TB, open Opener) *Desk {
	clk := NewClock()
	return NewDesk(t, open(clk.Now), clk)
}

// Tally returns one of the subject "ann", whose keys look as a gate's.
func (d *Desk) Tally(a store.Algorithm, limit int, window time.Duration) store.Tally {
	return d.TallyOf("ann", a, limit, window)
}

// TallyOf returns a tally of any subject.
func (d *Desk) TallyOf(subject string, a store.Algorithm, limit int, window time.Duration) store.Tally {
	return store.Tally{
		Key: d.Namespace + ":w:{" + subject + "}:" + string(a[len(a)-4:]) + "-win", Subject: subject, Algorithm: a, Limit: limit,
		Window: store.Window{Length: window}, Cost: 1, Burst: limit, Records: d.Namespace + ":q:{" + subject + "}",
	}
}

// based gives t a first stage.
func based(t store.Tally, limit int, window time.Duration) store.Tally {
	t.Base = &store.Base{Key: t.Key + ":b", Limit: limit, Window: store.Window{Length: window}}
	return t
}

// striking gives t strikes.
func striking(t store.Tally, limit int, window time.Duration) store.Tally {
	t.Strikes = &store.Strikes{Key: t.Key + ":s", Limit: limit, Window: window}
	return t
}

// Costing returns t with another cost.
func Costing(t store.Tally, cost int) store.Tally { t.Cost = cost; return t }

func rejecting(t store.Tally) store.Tally { t.CountRejected = true; return t }

// Ask puts a call to the store.
func (d *Desk) Ask(call store.Call) []store.Count {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), callTimeout)
	defer cancel()
	counts, err := d.Store.Decide(ctx, call)
	if err != nil || len(counts) != len(call.Tallies) {
		d.Fatalf("Decide(%+v) = %+v, %v", call, counts, err)
	}
	if d.Clock != nil && call.Request == "" {
		for _, c := range counts {
			if !c.At.Equal(d.Clock.Now().Truncate(time.Microsecond)) {
				d.Fatalf("%s decided at %v, want %v", call.Mode, c.At, d.Clock.Now())
			}
		}
	}
	return counts
}

// Do asks about tallies in one mode.
func (d *Desk) Do(mode store.Mode, tallies ...store.Tally) []store.Count {
	d.Helper()
	return d.Ask(store.Call{Mode: mode, Tallies: tallies})
}

// One is Do for a single tally.
func (d *Desk) One(mode store.Mode, t store.Tally) store.Count {
	d.Helper()
	return d.Do(mode, t)[0]
}

// Left is how many units the tally has left.
func (d *Desk) Left(t store.Tally) int {
	d.Helper()
	return d.One(store.Check, t).Remaining
}

// All returns a tally of each algorithm that counts, with limit units in window and no more at once.
func (d *Desk) All(limit int, window time.Duration) []store.Tally {
	var all []store.Tally
	for _, name := range store.Algorithms {
		tally := d.Tally(name, limit, window)
		if algorithm.Of(name).Base {
			tally = based(tally, 0, window) // a base of nothing leaves the log
		}
		all = append(all, tally)
	}
	return all
}
