package simulation

import (
	"math/rand/v2"
	"sync"
	"time"
)

// chance is the only source of chance of a world. Safe for concurrent use.
type chance struct {
	mu sync.Mutex
	r  *rand.Rand // guarded by mu
}

func newChance(number uint64) *chance { return &chance{r: rand.New(rand.NewPCG(number, 0))} }

// between returns a number from low to high.
func (c *chance) between(low, high int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return low + c.r.IntN(high-low+1)
}

// oneIn is true once in n times; never if n is 0.
func (c *chance) oneIn(n int) bool { return n > 0 && c.between(1, n) == 1 }

// upTo returns a duration below most.
func (c *chance) upTo(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return time.Duration(c.between(0, int(most/time.Microsecond)-1)) * time.Microsecond
}
