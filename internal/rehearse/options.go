package rehearse

import (
	"cmp"
	"io"
	"time"

	"github.com/tidegate/tidegate/internal/judge"
)

// Options define the crowd, its plan and its target. The zero value is not usable: PublicURLs, InternalURL, Sale and two of
// Buyers, Rate and Duration are required.
type Options struct {
	PublicURLs  []string // base URLs of the public API, one per process; buyers spread over them
	InternalURL string   // base URL of the internal API, for creating, listing and verifying
	Token       string   // bearer token of the internal API; "" sends none

	Sale  string
	Items []string // what buyers ask for, evenly; none = every item of the sale, or "item-1" when it creates the sale
	Stock int      // units of each item; above 0 the run creates the sale and opens it, 0 = the sale exists
	Quota int      // units per buyer and item; 0 = 1 when the run creates the sale, otherwise the sale's own

	Hold time.Duration // time to pay, of a sale that the run creates, in whole milliseconds; 0 = a confirmed order is final

	Buyers   int           // give two of Buyers, Rate and Duration; 0 = derived from the others
	Rate     float64       // new buyers per second once the ramp is over; 0 = derived
	Duration time.Duration // from the first to the last new buyer, the ramp included; 0 = derived
	Ramp     time.Duration // how long arrivals increase linearly to Rate; 0 = full rate at once

	OrdersPerBuyer  int     // orders of each buyer, each with its own key; 0 = 1
	QuantityMax     int     // units of an order, evenly 1..QuantityMax; 0 = 1
	DuplicateClicks float64 // share of orders clicked twice: every other one with the same key, the rest with a different one; 0..1
	HangUps         float64 // share of orders whose first click cuts its connection after sending; retried after the wave; 0..1
	Keyless         float64 // share of buyers who send no Idempotency-Key, which needs a quota of 1; 0..1
	Shares          Shares  // what buyers do with their orders
	Seed            uint64  // the same seed and options give the same plan; 0 is a seed like any other

	Limit     int           // orders of a user that the rules admit within any Window, used by the judge only; 0 = not judged
	Window    time.Duration // of Limit; 0 = 1 min
	ClockSkew time.Duration // every call to the public API has a Date that is off by this much; 0 = no Date

	Shared  bool                // others also buy from the sale that the run creates: their orders are not this crowd's
	Faults  bool                // faults are injected during the run: the server may lose counters, and units may take any time to return
	Stopped func() []judge.Stop // called once, after the drain; returns the stops of APIs that recoveries went on without; nil = none

	Connections    int           // maximum sockets at the public API, including those of followers; 0 = 2,000
	Followers      int           // orders followed at once, each over one socket; 0 = 256, at most half of Connections
	RequestTimeout time.Duration // after which an answer is lost; 0 = 10 s
	Attempts       int           // maximum tries per click during the wave after lost responses; 0 = 5
	RetryWait      time.Duration // before the first repeat, doubled for each further one; Retry-After wins; 0 = 100 ms
	Impatient      bool          // buyers repeat after RetryWait and ignore Retry-After
	// DrainTimeout is the maximum time after the wave for orders to be confirmed, paid or expired and for queues to empty, which takes Asynq
	// two minutes after a worker was killed. 0 = 3 min.
	DrainTimeout time.Duration

	Opening func() // called before a sale that the run creates is opened; nil = not called

	HistoryFile string    // JSON lines of the history, overwritten; "" = none
	Progress    io.Writer // gets one line per second during the run; nil = none
}

func (o Options) withDefaults() Options {
	if o.Stock > 0 {
		if len(o.Items) == 0 {
			o.Items = []string{"item-1"}
		}
		o.Quota = cmp.Or(o.Quota, 1)
	}
	o.OrdersPerBuyer = cmp.Or(o.OrdersPerBuyer, 1)
	o.QuantityMax = cmp.Or(o.QuantityMax, 1)
	o.Connections = cmp.Or(o.Connections, 2000)
	o.Followers = cmp.Or(o.Followers, min(256, o.Connections/2))
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 10*time.Second)
	o.Attempts = cmp.Or(o.Attempts, 5)
	o.RetryWait = cmp.Or(o.RetryWait, 100*time.Millisecond)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, 3*time.Minute)
	o.Window = cmp.Or(o.Window, time.Minute)
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	w := wave{rate: o.Rate, ramp: o.Ramp}
	switch {
	case o.Duration == 0 && w.rate > 0:
		o.Duration = w.momentOf(float64(o.Buyers))
	case o.Buyers == 0 && w.rate > 0:
		o.Buyers = int(w.arrivedBy(o.Duration))
	case o.Rate == 0 && o.Duration > o.Ramp/2:
		o.Rate = float64(o.Buyers) / (o.Duration - o.Ramp/2).Seconds()
	}
	return o
}
