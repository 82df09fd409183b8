package admission_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/testenv"
)

// eachAlgorithm runs test for all algorithms over all stores.
func eachAlgorithm(t *testing.T, limit int, test func(d *desk, tally admission.Tally)) {
	t.Helper()
	eachStore(t, func(t *testing.T, open opener) {
		d := newDesk(t, open)
		for _, tally := range d.all(limit, 10*sec) {
			d.clk.At(5 * sec) // where a span of ten seconds begins
			test(d, tally)
		}
	})
}

func TestPitfall_P01_EqualTimesCountEach(t *testing.T) {
	eachAlgorithm(t, 20, func(d *desk, tally admission.Tally) {
		for i := range 21 {
			if c := d.one(doCharge, tally); (c.Reason == "") != (i < 20) || c.Remaining != max(0, 19-i) {
				d.Errorf("%s: charge %d at one time: %+v", tally.Algorithm, i+1, c)
			}
		}
	})
}

func TestPitfall_P02_NobodyIsRefusedOnceTheWindowHasEnded(t *testing.T) {
	eachAlgorithm(t, 5, func(d *desk, tally admission.Tally) {
		for range 3 {
			c := d.one(doCharge, costing(tally, 5))
			if c.Reason != "" || c.Remaining != 0 {
				d.Errorf("%s: %+v", tally.Algorithm, c)
			}
			d.clk.Advance(c.ResetAfter)
		}
	})
}

func TestPitfall_P03_HitsDoNotMoveTheEnd(t *testing.T) {
	eachAlgorithm(t, 100, func(d *desk, tally admission.Tally) {
		d.one(doCharge, costing(tally, 50))
		for range 9 {
			d.clk.Advance(sec)
			d.one(doCharge, tally)
		}
		d.clk.Advance(sec) // when the fifty have ended, or half of them where they are taken as spread over ten seconds
		if c := d.one(doCheck, tally); c.Remaining < 41 || tally.Algorithm != admission.SlidingCounter && c.Remaining < 91 {
			d.Errorf("%s: %+v", tally.Algorithm, c)
		}
	})
}

// The clock of this test runs ahead of Redis' expiry: the old window's key is still there.
func TestPitfall_P05_TheOldWindowDoesNotCountInTheNew(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		d := newDesk(t, open)
		minute := d.tallyOf("bob", admission.FixedWindow, 5, 0)
		minute.Window.Calendar = &admission.Calendar{Unit: "minute", Zone: time.UTC}
		for _, tally := range []admission.Tally{d.tally(admission.FixedWindow, 5, time.Minute), minute} {
			for range 3 {
				c := d.one(doCharge, costing(tally, 5))
				if c.Reason != "" {
					t.Errorf("%+v", c)
				}
				d.clk.Advance(c.ResetAfter)
			}
		}
	})
}

// A caller that asks all the time is admitted as often as one that waits.
func TestPitfall_P06_RejectedRequestsAreNotCounted(t *testing.T) {
	eachAlgorithm(t, 4, func(d *desk, tally admission.Tally) {
		admitted := 0
		for range 400 {
			if d.one(doCharge, tally).Reason == "" {
				admitted++
			}
			d.clk.Advance(100 * ms)
		}
		if admitted < 13 { // a counter that rounds up lets a little less pass
			d.Errorf("%s: %d admitted in 40 s, at 4 in 10 s", tally.Algorithm, admitted)
		}
	})
}

// In the year 2200 a time in µs has 53 bits: the last one that a floating-point number holds.
func TestPitfall_P08_TimesAreExact(t *testing.T) {
	eachAlgorithm(t, 3, func(d *desk, tally admission.Tally) {
		d.clk.At(time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).Sub(epoch))
		d.one(doCharge, costing(tally, 3))
		c := d.one(doCheck, tally)
		d.clk.Advance(c.RetryAfter - µs)
		if c := d.one(doCheck, tally); c.RetryAfter != µs {
			d.Errorf("%s: a µs before its end: %+v", tally.Algorithm, c)
		}
		d.clk.Advance(µs)
		if c := d.one(doCharge, tally); c.Reason != "" {
			d.Errorf("%s: at its end: %+v", tally.Algorithm, c)
		}
	})
}

func TestPitfall_P09_P20_ScriptsUseNoForbiddenCommand(t *testing.T) {
	forbidden := regexp.MustCompile(`replicate_commands|'(KEYS|SCAN|HSCAN|FLUSH\w+|SMEMBERS)'`)
	files, err := filepath.Glob("lua/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if found := forbidden.FindString(string(text)); found != "" {
			t.Errorf("%s has %s", name, found)
		}
	}
}

// P12: a cluster refuses a script with keys of two slots, and one server would not notice.
func TestPitfall_P12_OneScriptHasKeysOfOneSlot(t *testing.T) {
	t.Parallel()
	rdb := dial(t, cluster(t))
	tags := &hashTags{T: t, scripts: map[string]int{}}
	rdb.AddHook(tags)
	g := gate(t, admission.NewRedisStore(rdb), namespace(), everyKindOfKey)
	ann := admission.Request{User: "ann", Device: "phone", ID: "r1"}
	charge(t, g, ann)
	if _, err := g.RefundRequest(t.Context(), ann); err != nil {
		t.Error(err)
	}
	if _, err := g.Reset(t.Context(), ann, ""); err != nil {
		t.Error(err)
	}
	for tag, n := range tags.scripts {
		if n < 3 {
			t.Errorf("%d scripts about %s, want one each to charge, to refund and to reset", n, tag)
		}
	}
	if len(tags.scripts) != 2 {
		t.Errorf("scripts about %d subjects, want the user and the device", len(tags.scripts))
	}
}

// hashTags is a hook that counts scripts by the hash tags of their keys.
type hashTags struct {
	*testing.T
	scripts map[string]int
}

func (*hashTags) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*hashTags) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *hashTags) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" && cmd.Name() != "eval" {
			return next(ctx, cmd)
		}
		args, tags := cmd.Args(), map[string]bool{}
		for _, key := range args[3 : 3+args[2].(int)] {
			_, tag, _ := strings.Cut(key.(string), "{")
			tag, _, _ = strings.Cut(tag, "}")
			tags[tag] = true
		}
		if len(tags) != 1 {
			h.Errorf("keys of one script: %q", args[3:3+args[2].(int)])
		}
		for tag := range tags {
			h.scripts[tag]++
		}
		return next(ctx, cmd)
	}
}

func TestPitfall_P13_NothingIsLeftIsNothing(t *testing.T) {
	eachAlgorithm(t, 9, func(d *desk, tally admission.Tally) {
		d.one(doCharge, costing(tally, 9))
		tally.Limit, tally.Burst = 4, 4
		for _, mode := range []admission.Mode{doCheck, doCharge} {
			if c := d.one(mode, tally); c.Remaining != 0 || c.Reason != limited {
				d.Errorf("%s, where more counts than the limit: %+v", tally.Algorithm, c)
			}
		}
	})
}

// While the sweep goes on, decisions do, and what counts stays.
func TestPitfall_P19_TheSweepDropsNothingThatCounts(t *testing.T) {
	clk := newClock()
	store := admission.NewMemoryStore(admission.MemoryOptions{Now: clk.Now})
	d := &desk{t, store, clk, namespace()}
	long, short := d.tallyOf("ann", admission.SlidingLog, 5000, time.Hour), d.tallyOf("bob", admission.SlidingLog, 5000, sec)
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				store.Sweep()
				clk.Advance(100 * ms)
			}
		}
	})
	var charges sync.WaitGroup
	for range 4 {
		charges.Go(func() {
			for range 1000 {
				if _, err := store.Decide(t.Context(), admission.Call{Mode: doCharge, Tallies: []admission.Tally{long, short}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	charges.Wait()
	close(done)
	wg.Wait()
	if passed := clk.Now().Sub(epoch); passed < time.Hour && d.left(long) != 1000 {
		t.Errorf("%d left after %v, want 1000", d.left(long), passed)
	}
}

// Under noeviction, which docker-compose.yml asks for, a Redis without memory refuses to count whom it does not know yet, and forgets
// nobody whom it does.
func TestPitfall_P21_AFullRedisForgetsNobody(t *testing.T) {
	t.Parallel()
	rdb := dial(t, testenv.StartRedis(t).URL())
	g := gate(t, admission.NewRedisStore(rdb), namespace(), "- {name: r, subject: user, limit: 1, window: 1h}")
	for i := range 10 {
		charge(t, g, admission.Request{User: strconv.Itoa(i)})
	}
	if err := rdb.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if d := check(t, g, admission.Request{User: strconv.Itoa(i)}); d.Admitted || d.Remaining != 0 {
			t.Errorf("user %d, who was counted: %+v", i, d)
		}
	}
	if d, err := g.Charge(t.Context(), admission.Request{User: "new"}); err != nil || !d.Degraded {
		t.Errorf("somebody new: %+v, %v, want to be told that nothing was counted", d, err)
	}
}

// Every caller gets the same end, to the µs.
func TestPitfall_P22_TheEndIsOneInstant(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		d := newDesk(t, open)
		calendar := d.tallyOf("bob", admission.FixedWindow, 10, 0)
		calendar.Window.Calendar = &admission.Calendar{Unit: "day", Zone: zone(t, "Asia/Kolkata")}
		for _, tally := range append(d.all(10, 10*sec), calendar) {
			c := d.one(doCharge, costing(tally, 10))
			end := c.At.Add(c.ResetAfter)
			for range 20 {
				d.clk.Advance(77_777 * µs)
				if c := d.one(doCheck, tally); !c.At.Add(c.ResetAfter).Equal(end) {
					t.Errorf("%s: ends at %v, want %v", tally.Algorithm, c.At.Add(c.ResetAfter), end)
				}
			}
		}
	})
}

func TestPitfall_P29_ABatchAboveTheLimitNeverPasses(t *testing.T) {
	eachAlgorithm(t, 5, func(d *desk, tally admission.Tally) {
		for range 3 {
			if c := d.one(doCharge, costing(tally, 6)); c.Reason != tooMuch || c.RetryAfter != 0 || c.Remaining != 5 {
				d.Errorf("%s: %+v", tally.Algorithm, c)
			}
			d.clk.Advance(time.Minute)
		}
	})
}
