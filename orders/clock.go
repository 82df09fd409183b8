package orders

import (
	"sync/atomic"
	"time"
)

// clock estimates Redis' time between replies. The zero value has no reading yet.
type clock struct {
	last atomic.Pointer[reading]
}

type reading struct {
	redis time.Time
	at    time.Time // with the monotonic reading, so that a step of the local clock changes nothing
}

func (c *clock) read(redisMS int64) {
	c.last.Store(&reading{redis: time.UnixMilli(redisMS), at: time.Now()})
}

// now is Redis' time, wrong by at most a round trip. Before the first reading
// it is the local clock's, and known is false.
func (c *clock) now() (now time.Time, known bool) {
	r := c.last.Load()
	if r == nil {
		return time.Now(), false
	}
	return r.redis.Add(time.Since(r.at)), true
}
