package storetest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidegate/tidegate/admission/store"
)

// All tallies of a request are charged or none is, whatever they count by and whomever they count.
func testAllOrNothingOfTallies(t *testing.T, open Opener) {
	d := newDesk(t, open)
	tallies := d.All(5, sec)
	full := d.TallyOf("bob", store.FixedWindow, 1, sec)
	d.One(doCharge, full)
	for range 3 {
		for i, c := range d.Do(doCharge, append(slices.Clone(tallies), full)...) {
			if want := i == len(tallies); (c.Reason == limited) != want || (c.Stamp != 0) {
				t.Fatalf("tally %d: %+v", i, c)
			}
		}
	}
	shadow := full
	shadow.Shadow = true
	for i, c := range d.Do(doCharge, append(slices.Clone(tallies), shadow)...) {
		if i < len(tallies) && (c.Stamp == 0 || c.Remaining != 4) || i == len(tallies) && (c.Reason != limited || c.Stamp != 0) {
			t.Errorf("beside a full shadow, tally %d: %+v", i, c)
		}
	}
}

// P6: refused requests are not counted, except by rules with count_rejected: then in every window of that rule, once.
func testRejectedUnitsCountWithCountRejected(t *testing.T, open Opener) {
	d := newDesk(t, open)
	full := d.TallyOf("bob", store.SlidingLog, 1, sec)
	d.One(doCharge, full)
	tallies := d.All(10, sec)
	for i := range tallies {
		tallies[i] = rejecting(Costing(tallies[i], 2))
	}
	plain := d.TallyOf("cat", store.SlidingLog, 10, sec)
	// The refusal comes last, in the middle and first: on a cluster these take different ways.
	for n, place := range []int{len(tallies) + 1, 2, 0} {
		request := slices.Insert(append(slices.Clone(tallies), plain), place, full)
		for i, c := range d.Do(doCharge, request...) {
			want := 10 - 2*(n+1)
			switch {
			case i == place:
				want = 0
			case !request[i].CountRejected:
				want = 10
			}
			if c.Remaining != want || c.Stamp != 0 || (c.Reason == "") != (i != place) {
				t.Errorf("request %d, %s of %s: %+v, want %d left", n, request[i].Algorithm, request[i].Subject, c, want)
			}
		}
	}
	for _, tally := range append(tallies, plain) { // only looking counts nothing
		before := d.Left(tally)
		d.Do(doCheck, tally, full)
		if d.Left(tally) != before {
			t.Errorf("%s: a check was counted", tally.Algorithm)
		}
	}
}

func testResetForgetsOneSubjectInOneWindow(t *testing.T, open Opener) {
	d := newDesk(t, open)
	based := based(d.Tally(store.TwoStage, 2, sec), 3, time.Minute)
	tallies := append(d.All(5, time.Minute)[:4], based)
	others := []store.Tally{d.TallyOf("bob", store.SlidingLog, 5, time.Minute)}
	d.Do(doCharge, append(slices.Clone(tallies), others...)...)
	for i, c := range d.Do(doReset, tallies...) {
		if c.Remaining != 5 || c.ResetAfter != 0 || c.Reason != "" || c.Stamp != 0 {
			t.Errorf("%s: %+v", tallies[i].Algorithm, c)
		}
	}
	for _, tally := range tallies {
		if n := d.Left(tally); n != 5 {
			t.Errorf("%s: %d left", tally.Algorithm, n)
		}
	}
	if n := d.Left(others[0]); n != 4 {
		t.Errorf("bob has %d left, want 4", n)
	}
}

// With these hits a counter that resets each second admits fourteen within one second.
func testTwoThirdsOfASecond(t *testing.T, open Opener) {
	for _, c := range []struct {
		name     string
		tally    func(*Desk) store.Tally
		admitted int
		most     int // in any second
	}{
		{"sliding_log", logOf(10), 3 + 7 + 3 + 3, 10},
		// It takes the hits of 0 to 1 s as spread evenly, which they are not. By its own count there are never more than 10.
		{"sliding_counter", counterOf(10), 17, 11},
		{"fixed_window", fixedOf(10), 20, 14},
		{"calendar minute", func(d *Desk) store.Tally {
			tally := d.Tally(store.FixedWindow, 10, 0)
			tally.Window.Calendar = &store.Calendar{Unit: "minute", Zone: time.UTC}
			return tally
		}, 20, 14},
	} {
		d := newDesk(t, open)
		tally := c.tally(d)
		// A second of the picture begins when the clock strikes, for a calendar's minute when that does.
		start := time.Duration(0)
		if tally.Window.Calendar != nil {
			start = 54 * sec // epoch is 5 s past the minute
		}
		var times []time.Duration
		for half, hits := range []int{3, 7, 7, 3} {
			for i := range hits {
				at := start + time.Duration(half)*500*ms + time.Duration(i)*500*ms/time.Duration(hits)
				d.Clock.At(at)
				if d.One(doCharge, tally).Reason == "" {
					times = append(times, at)
				}
			}
		}
		most := 0
		for i, from := range times {
			n := 0
			for _, at := range times[i:] {
				if at < from+sec {
					n++
				}
			}
			most = max(most, n)
		}
		if len(times) != c.admitted || most != c.most {
			t.Errorf("%s: %d admitted, %d within one second; want %d and %d", c.name, len(times), most, c.admitted, c.most)
		}
	}
}

// P14, P15, P28: a thousand at once, ten times over, and exactly the limit comes in.
func testExactlyTheLimitWhateverCounts(t *testing.T, open Opener) {
	const callers, limit = 1000, 100
	st := open(nil)
	for round := range 10 {
		d := NewDesk(t, st, nil)
		other := d.TallyOf("bob", store.SlidingCounter, 5*limit, 24*time.Hour)
		for _, tally := range d.All(limit, time.Hour) {
			tally.Burst = limit
			var admitted atomic.Int64
			var wg sync.WaitGroup
			begin := make(chan struct{})
			for range callers {
				wg.Go(func() {
					<-begin
					counts, err := st.Decide(t.Context(), store.Call{Mode: doCharge, Tallies: []store.Tally{tally}})
					if err != nil {
						t.Error(err)
					} else if counts[0].Reason == "" {
						admitted.Add(1)
					}
				})
			}
			close(begin)
			wg.Wait()
			// An even rate lets one more pass every 36 s, which no test run takes between the first and the last.
			if n := admitted.Load(); n != limit {
				t.Errorf("round %d, %s: %d of %d callers admitted, want %d", round, tally.Algorithm, n, callers, limit)
			}
		}
		if n := d.Left(other); n != 5*limit {
			t.Errorf("%d left of a counter that no call used", n)
		}
	}
}

// Refund, Reset and Erase notify every listener of the channel, once for each subject.
func testListenersReceive(t *testing.T, open Opener) {
	d := newDesk(t, open)
	channel := d.Namespace + ":taken-back"
	ctx, stop := context.WithCancel(t.Context())
	received := make([]chan string, 3)
	ended := make(chan error, len(received))
	for i := range received {
		received[i] = make(chan string, 100)
		name := channel
		if i == 2 {
			name += "-of-others"
		}
		go func() { ended <- d.Store.Listen(ctx, name, func(subject string) { received[i] <- subject }) }()
		if subject := <-received[i]; subject != "" {
			t.Fatalf("first %q, want that something may have been missed", subject)
		}
	}
	tallies := []store.Tally{
		d.Tally(store.SlidingLog, 5, time.Minute), d.Tally(store.GCRA, 5, time.Minute),
		d.TallyOf("bob", store.SlidingLog, 5, time.Minute),
	}
	d.Ask(store.Call{Mode: doCharge, Tallies: tallies, Channel: channel})
	d.Ask(store.Call{Mode: doCheck, Tallies: tallies, Channel: channel})
	d.Ask(store.Call{Mode: doReset, Tallies: tallies[:1]}) // without a channel
	d.Ask(store.Call{Mode: doRefund, Tallies: tallies, Channel: channel})
	d.Ask(store.Call{Mode: doReset, Tallies: tallies[:1], Channel: channel})
	d.Ask(store.Call{Mode: doAdd, Tallies: tallies, Channel: channel})
	d.Ask(store.Call{Mode: doErase, Tallies: tallies, Channel: channel})
	for i := range 2 {
		got := []string{<-received[i], <-received[i], <-received[i], <-received[i], <-received[i]}
		slices.Sort(got) // on a cluster they come from several servers
		if diff := cmp.Diff([]string{"ann", "ann", "ann", "bob", "bob"}, got); diff != "" {
			t.Errorf("listener %d received (-want +got):\n%s", i, diff)
		}
	}
	stop()
	for range received {
		if err := <-ended; err != nil {
			t.Errorf("Listen = %v", err)
		}
	}
	d.Ask(store.Call{Mode: doReset, Tallies: tallies, Channel: channel})
	for i := range received {
		if n := len(received[i]); n > 0 {
			t.Errorf("listener %d received %d more", i, n)
		}
	}
}
