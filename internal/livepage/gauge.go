package livepage

import (
	"math"
	"sync"
	"sync/atomic"
)

// A gauge is a subject's use of a limit: the lower 32 bits are the units used, the upper ones the limit. Zero: nothing was counted.
type gauge uint64

func gaugeOf(used, limit int) gauge {
	within := func(n int) gauge { return gauge(min(max(n, 0), math.MaxUint32)) }
	return within(limit)<<32 | within(used)
}

func (g gauge) used() int  { return int(g & math.MaxUint32) }
func (g gauge) limit() int { return int(g >> 32) }

// share returns the used share, from 0 to 1.
func (g gauge) share() float64 {
	if g.limit() == 0 {
		return 0
	}
	return min(1, float64(g.used())/float64(g.limit()))
}

// gauges holds the fullest gauge of each name since the last take. The zero value is ready.
type gauges struct {
	of sync.Map // name → *atomic.Uint64, a gauge
}

func (g *gauges) raise(name string, to gauge) {
	at, ok := g.of.Load(name)
	if !ok {
		at, _ = g.of.LoadOrStore(name, new(atomic.Uint64))
	}
	n := at.(*atomic.Uint64)
	for {
		old := n.Load()
		if old != 0 && gauge(old).share() >= to.share() || n.CompareAndSwap(old, uint64(to)) {
			return
		}
	}
}

func (g *gauges) take() map[string]gauge {
	taken := map[string]gauge{}
	g.of.Range(func(name, at any) bool {
		taken[name.(string)] = gauge(at.(*atomic.Uint64).Swap(0))
		return true
	})
	return taken
}
