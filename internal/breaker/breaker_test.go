package breaker_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/internal/breaker"
)

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker.New(3, time.Second)
		for i, step := range []struct {
			after   time.Duration
			do      string // "": nothing; else fail or succeed
			turns   bool   // the breaker opens or closes by it
			open    bool
			allowed bool // then
		}{
			{0, "", false, false, true},
			{0, "succeed", false, false, true},
			{0, "fail", false, false, true},
			{0, "fail", false, false, true},
			{0, "succeed", false, false, true}, // ends the row
			{0, "fail", false, false, true},
			{0, "fail", false, false, true},
			{0, "fail", true, true, false},
			{999 * time.Millisecond, "", false, true, false},
			{time.Millisecond, "", false, true, true},
			{0, "fail", false, true, false},
			{time.Second, "", false, true, true}, // counted from the last try, not from its failure
			{time.Hour, "", false, true, true},
			{0, "", false, true, false}, // one try, however long nobody came
			{0, "succeed", true, false, true},
			{0, "fail", false, false, true}, // counted from zero
		} {
			time.Sleep(step.after)
			turned := false
			switch step.do {
			case "fail":
				turned = b.Failed()
			case "succeed":
				turned = b.Succeeded()
			}
			open, allowed := b.Open(), b.Allows()
			if turned != step.turns || open != step.open || allowed != step.allowed {
				t.Errorf("step %d: turned %t, open %t, allowed %t, want %+v", i, turned, open, allowed, step)
			}
		}
	})
}

func TestOneOpensAndOneTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker.New(10, time.Second)
		count := func(do func() bool) int64 {
			var n atomic.Int64
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() {
					if do() {
						n.Add(1)
					}
				})
			}
			wg.Wait()
			return n.Load()
		}
		if n := count(b.Probes); n != 0 {
			t.Errorf("%d callers probe behind a closed breaker", n)
		}
		if n := count(b.Failed); n != 1 {
			t.Errorf("opened %d times", n)
		}
		if n := count(b.Allows); n != 0 {
			t.Errorf("%d callers allowed at once", n)
		}
		time.Sleep(time.Second)
		if n := count(b.Allows); n != 1 {
			t.Errorf("%d callers allowed after the pause, want 1", n)
		}
		if n := count(b.Succeeded); n != 1 {
			t.Errorf("closed %d times", n)
		}
	})
}
