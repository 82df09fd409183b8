package loadshed

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const decideTime = 200 * time.Millisecond

// crowd starts concurrent callers, each of which decides for the given time, and returns how many found room.
func crowd(c *Capacity, callers int, decides time.Duration) (entered int) {
	var (
		wg sync.WaitGroup
		mu sync.Mutex
	)
	for range callers {
		wg.Go(func() {
			if _, ok := c.enter(); !ok {
				return
			}
			time.Sleep(decides)
			c.leave(decides)
			mu.Lock()
			entered++
			mu.Unlock()
		})
	}
	wg.Wait()
	return entered
}

// TestCapacityIsWaitedFor: a caller without room waits for half of a decision's time, and then leaves without having taken any.
func TestCapacityIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCapacity(decideTime)
		c.window.end = time.Now().Add(time.Hour) // the limit stays the same all the time
		if got := crowd(c, 3*firstLimit, 60*time.Millisecond); got != 2*firstLimit {
			t.Errorf("%d of three turns of 60 ms found room within 100 ms, want those of the first two", got)
		}
		if c.inUse != 0 || c.waiting.Len() != 0 {
			t.Errorf("%d are in, %d wait, when all have gone", c.inUse, c.waiting.Len())
		}
	})
}

// TestCapacitySpreadsWhoComesBack: each refused caller gets its own time to retry, spaced at half of the rate of decisions.
func TestCapacitySpreadsWhoComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCapacity(decideTime)
		for range 50 {
			crowd(c, 50, 100*time.Millisecond) // 500 per second
		}
		if c.pace < 450 || c.pace > 550 {
			t.Fatalf("a pace of %.0f a second, want 500", c.pace)
		}
		c.limit = 1 // otherwise a higher rate is assumed
		seconds := make(map[int]int)
		for range 10_000 {
			retryAfter := c.RetryAfter()
			if retryAfter < minRetryAfter || retryAfter > maxRetryAfter {
				t.Fatalf("come back in %v", retryAfter)
			}
			seconds[int(retryAfter/time.Second)]++
		}
		for s := 2; s < 29; s++ {
			if n := seconds[s]; n < 200 || n > 300 {
				t.Errorf("%d come back in second %d, want 250", n, s)
			}
		}
	})
}

// TestCapacityIsFair: first come, first served; later callers do not overtake waiting ones.
func TestCapacityIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCapacity(decideTime)
		const most = 3
		c.limit = most
		for range most {
			if _, ok := c.enter(); !ok {
				t.Fatal("no room at first")
			}
		}
		var order []int
		for i := range most {
			go func() {
				if _, ok := c.enter(); ok {
					order = append(order, i)
					time.Sleep(time.Millisecond)
					c.leave(0)
				}
			}()
			synctest.Wait()
		}
		c.leave(0)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(order) != 3 || order[0] != 0 || order[1] != 1 || order[2] != 2 {
			t.Errorf("%v", order)
		}
	})
}

// TestCapacityFollowsTheTimeOfDecisions: the limit shrinks while decisions are late, down to a minimum, and grows while they
// are not and callers wait.
func TestCapacityFollowsTheTimeOfDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCapacity(decideTime)
		for range 20 {
			crowd(c, 2*c.limit, decideTime)
		}
		if c.limit != minLimit {
			t.Errorf("limit %d although nothing is decided in time, want %d", c.limit, minLimit)
		}
		for range 5 {
			crowd(c, 2*c.limit, decideTime/2)
		}
		before := c.limit
		if before <= minLimit {
			t.Errorf("limit %d although all is decided in time, and many wait", before)
		}
		for range 20 {
			crowd(c, 10, decideTime/2)
		}
		if c.limit != before {
			t.Errorf("limit %d after a time without a crowd, want %d as before", c.limit, before)
		}
		c.limit = maxLimit - 1
		if crowd(c, 2*c.limit, decideTime/2); c.limit != maxLimit {
			t.Errorf("limit %d, want at most %d", c.limit, maxLimit)
		}
	})
}

// TestCapacityCountsWhatItKnows: uncounted decisions neither hide late ones nor make room.
func TestCapacityCountsWhatItKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCapacity(decideTime)
		for range 20 {
			crowd(c, c.limit, decideTime)
			for range 20 * c.limit {
				c.enter()
				c.leave(0)
			}
		}
		if c.limit != minLimit {
			t.Errorf("limit %d although nothing is decided in time, want %d", c.limit, minLimit)
		}
		c.window = window{full: true}
		c.enter()
		if c.leave(0); c.limit != minLimit {
			t.Errorf("limit %d although nothing was decided", c.limit)
		}
	})
}
