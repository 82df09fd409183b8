package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidegate/tidegate/admission/store"
)

// The refusal that reaches the limit is reported once, and counting starts from zero.
func testStruckExactlyAtTheNth(t *testing.T, open Opener) {
	for _, algorithm := range []store.Algorithm{store.SlidingLog, store.GCRA} {
		d := newDesk(t, open)
		tally := striking(d.Tally(algorithm, 1, time.Hour), 3, 10*sec)
		var struck []int
		for i := range 12 { // refusals at 0 s, 1 s, …, the first request is admitted
			if d.One(doCheck, tally).Struck {
				t.Error("a check strikes")
			}
			if d.One(doCharge, tally).Struck {
				struck = append(struck, i)
			}
			d.Clock.Advance(sec)
		}
		if diff := cmp.Diff([]int{3, 6, 9}, struck); diff != "" {
			t.Errorf("%s struck at (-want +got):\n%s", algorithm, diff)
		}
		d.One(doReset, tally) // of the two since, as well
		d.One(doCharge, tally)
		for i := range 3 {
			if c := d.One(doCharge, tally); c.Struck != (i == 2) {
				t.Errorf("%s: refusal %d after a reset: %+v", algorithm, i+1, c)
			}
		}
		for i := range 4 { // never three within ten seconds
			if c := d.One(doCharge, tally); c.Struck {
				t.Errorf("%s: slow refusal %d: %+v", algorithm, i+1, c)
			}
			d.Clock.Advance(5 * sec)
		}
	}
}

func testWhoStrikes(t *testing.T, open Opener) {
	d := newDesk(t, open)
	zero := striking(d.TallyOf("zero", store.SlidingLog, 0, sec), 1, sec)
	if c := d.One(doCharge, zero); c.Reason != tooMuch || !c.Struck {
		t.Errorf("a limit of 0: %+v", c)
	}
	full := d.TallyOf("bob", store.SlidingLog, 1, sec)
	d.One(doCharge, full)
	shadow := striking(full, 1, sec)
	shadow.Shadow = true
	room := striking(d.Tally(store.SlidingLog, 9, sec), 1, sec)
	for i, c := range d.Do(doCharge, room, shadow, full) {
		if c.Struck {
			t.Errorf("tally %d, which had room, or only reports, or counts no strikes: %+v", i, c)
		}
	}
	if c := d.One(doCharge, striking(d.Tally(store.SlidingLog, 9, sec), 1, sec)); c.Reason != "" || c.Struck {
		t.Errorf("an admission: %+v", c)
	}
}

// Refusals by the deny cache are counted later, in one batch.
func testRejectCountsWhatWasRefusedElsewhere(t *testing.T, open Opener) {
	d := newDesk(t, open)
	for _, tally := range d.All(10, sec) {
		tally = striking(rejecting(Costing(tally, 4)), 5, time.Minute)
		tally.Refusals = 3
		if c := d.One(doReject, tally); c.Struck || c.Stamp != 0 || c.Remaining != 6 {
			t.Errorf("%s: 3 refusals of 4 units: %+v", tally.Algorithm, c)
		}
		if c := d.One(doReject, tally); !c.Struck {
			t.Errorf("%s: 6 refusals: %+v", tally.Algorithm, c)
		}
		if c := d.One(doReject, tally); c.Struck || c.Remaining > 2 {
			t.Errorf("%s: 3 refusals after a strike: %+v", tally.Algorithm, c)
		}
		tally.Refusals, tally.Cost = 1_000_000, 1_000_000_000
		if c := d.One(doReject, tally); !c.Struck || c.Remaining != 0 {
			t.Errorf("%s: a million refusals: %+v", tally.Algorithm, c)
		}
	}
	plain := d.TallyOf("bob", store.SlidingLog, 10, sec)
	plain.Refusals = 5
	if c := d.One(doReject, plain); c.Remaining != 10 || c.Struck {
		t.Errorf("a rule that counts no refusals: %+v", c)
	}
}
