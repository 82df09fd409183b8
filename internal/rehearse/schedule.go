package rehearse

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// wave is the arrival curve: the rate increases linearly from 0 during the ramp and then stays constant.
type wave struct {
	rate float64 // arrivals per second
	ramp time.Duration
}

// arrivedBy returns how many have arrived by t, as a real number.
func (w wave) arrivedBy(t time.Duration) float64 {
	s, ramp := max(t.Seconds(), 0), w.ramp.Seconds()
	if s < ramp {
		return w.rate * s * s / (2 * ramp)
	}
	return w.rate * (s - ramp/2)
}

// momentOf is the inverse of arrivedBy.
func (w wave) momentOf(n float64) time.Duration {
	ramp := w.ramp.Seconds()
	s := ramp/2 + n/w.rate
	if n < w.rate*ramp/2 {
		s = math.Sqrt(2 * ramp * n / w.rate)
	}
	return time.Duration(s * float64(time.Second))
}

// click is one planned call. Clicks with the same buyer, order and second carry the same Idempotency-Key.
type click struct {
	at       time.Duration // since the start of the run
	buyer    int
	order    int  // which order of the buyer, from 0
	second   bool // a double click with a separate key
	again    bool // a double click
	item     int  // index into Options.Items
	quantity int
	hangUp   time.Duration // delay after sending; below 0 = the buyer waits for the response
	keyless  bool          // the buyer sends no Idempotency-Key
	plan     orderPlan     // of the order that the key gets
}

// key returns the Idempotency-Key of the click; buyer has the run's prefix, so keys of two runs differ.
func (c click) key(buyer string) string {
	if c.keyless {
		return ""
	}
	k := buyer + "-" + strconv.Itoa(c.order)
	if c.second {
		k += "b"
	}
	return k
}

// plan computes every call of the run, sorted by time, from the options alone (with defaults applied). Buyer i arrives at a
// random time within the i-th arrival of the curve: single arrivals are uneven, the total is exact.
func plan(o Options) []click {
	var (
		w      = wave{rate: o.Rate, ramp: o.Ramp}
		r      = rand.New(rand.NewPCG(o.Seed, 0x7469646567617465))
		plans  = rand.New(rand.NewPCG(o.Seed, 0x6661746566617465)) // a separate source, so that plans do not change the calls
		clicks = make([]click, 0, int(float64(o.Buyers*o.OrdersPerBuyer)*(1+o.DuplicateClicks))+1)
		second bool
	)
	between := func(from, to time.Duration) time.Duration { return from + time.Duration(r.Float64()*float64(to-from)) }
	for buyer := range o.Buyers {
		at := w.momentOf(float64(buyer) + r.Float64())
		keyless := plans.Float64() < o.Keyless
		for order := range o.OrdersPerBuyer {
			if order > 0 {
				at += between(100*time.Millisecond, 400*time.Millisecond)
			}
			c := click{
				at: at, buyer: buyer, order: order, item: r.IntN(len(o.Items)), quantity: 1 + r.IntN(o.QuantityMax), hangUp: -1,
				keyless: keyless, plan: planOrder(plans, o),
			}
			if r.Float64() < o.HangUps {
				c.hangUp = between(0, 10*time.Millisecond)
			}
			clicks = append(clicks, c)
			if r.Float64() < o.DuplicateClicks {
				c.at, c.hangUp, c.again, c.second = at+between(5*time.Millisecond, 100*time.Millisecond), -1, true, second
				second = !second
				if c.second && !keyless {
					c.plan = planOrder(plans, o)
				}
				clicks = append(clicks, c)
			}
		}
	}
	slices.SortStableFunc(clicks, func(a, b click) int { return cmp.Compare(a.at, b.at) })
	return clicks
}
