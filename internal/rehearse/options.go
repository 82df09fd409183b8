package rehearse

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
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
	Fates           Fates   // what buyers do with their orders
	Seed            uint64  // the same seed and options give the same plan; 0 is a seed like any other

	Limit     int           // orders of a user that the rules admit within any Window, used by the judge only; 0 = not judged
	Window    time.Duration // of Limit; 0 = 1 min
	ClockSkew time.Duration // every call to the public API has a Date that is off by this much; 0 = no Date

	Shared  bool          // others also buy from the sale that the run creates: their orders are not this crowd's
	Faults  bool          // faults are injected during the run: the server may lose counters, and units may take any time to return
	Stopped func() []Stop // called once, after the drain; returns the stops of APIs that recoveries went on without; nil = none

	Connections    int           // maximum sockets at the public API, including those of followers; 0 = 2,000
	Followers      int           // orders followed at once, each over one socket; 0 = 256, at most half of Connections
	RequestTimeout time.Duration // after which an answer is lost; 0 = 10 s
	Attempts       int           // maximum tries per click during the wave after lost responses; 0 = 5
	RetryWait      time.Duration // before the first repeat, doubled for each further one; Retry-After wins; 0 = 100 ms
	Impatient      bool          // buyers repeat after RetryWait, whatever Retry-After says
	DrainTimeout   time.Duration // how long after the wave orders may take to be confirmed, paid or expired and queues to empty, which takes Asynq two minutes after a worker was killed; 0 = 3 min

	Opening func()                                         // called before a sale that the run creates is opened; nil = not called
	Refused func(answer *http.Response, body []byte) error // makes the error for a refusal by the internal API; nil = the response is quoted

	HistoryFile string    // JSON lines of the history, overwritten; "" = none
	Progress    io.Writer // gets one line per second during the run; nil = none
}

func (o Options) withDefaults() Options {
	if o.Stock > 0 {
		if len(o.Items) == 0 {
			o.Items = []string{"item-1"}
		}
		o.Quota = orDefault(o.Quota, 1)
	}
	o.OrdersPerBuyer = orDefault(o.OrdersPerBuyer, 1)
	o.QuantityMax = orDefault(o.QuantityMax, 1)
	o.Connections = orDefault(o.Connections, 2000)
	o.Followers = orDefault(o.Followers, min(256, o.Connections/2))
	o.RequestTimeout = orDefault(o.RequestTimeout, 10*time.Second)
	o.Attempts = orDefault(o.Attempts, 5)
	o.RetryWait = orDefault(o.RetryWait, 100*time.Millisecond)
	o.DrainTimeout = orDefault(o.DrainTimeout, 3*time.Minute)
	o.Window = orDefault(o.Window, time.Minute)
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

func orDefault[T int | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

// validate checks the options before defaults are applied, and reports all invalid ones at once.
func (o Options) validate() error {
	var errs []error
	wrong := func(option, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w %s %s", ErrOption, option, fmt.Sprintf(format, args...)))
	}
	if len(o.PublicURLs) == 0 {
		wrong("--target", "is required: at least one URL such as http://127.0.0.1:8080")
	}
	for _, u := range o.PublicURLs {
		if !isBaseURL(u) {
			wrong("--target", "must be a base URL such as http://127.0.0.1:8080, got %q", u)
		}
	}
	if !isBaseURL(o.InternalURL) {
		wrong("--internal", "must be a base URL such as http://127.0.0.1:8081, got %q", o.InternalURL)
	}
	if o.Sale == "" {
		wrong("--sale", "is required: the name of the sale")
	}
	for _, item := range o.Items {
		if item == "" {
			wrong("--item", "must be names of items, got an empty one")
		}
	}
	switch given := count(o.Buyers != 0, o.Rate != 0, o.Duration != 0); {
	case given < 2:
		wrong("--buyers, --rate, --duration", "must be two of the three, got %d", given)
	case given > 2:
		wrong("--buyers, --rate, --duration", "must be two of the three, got all")
	case o.Buyers == 0 && int(wave{rate: o.Rate, ramp: o.Ramp}.arrivedBy(o.Duration)) < 1:
		wrong("--duration", "must be long enough for one buyer at %g per second, got %v", o.Rate, o.Duration)
	case o.Rate == 0 && o.Duration > 0 && o.Duration < o.Ramp:
		wrong("--ramp", "must be at most --duration %v, got %v", o.Duration, o.Ramp)
	}
	if !(o.Rate >= 0 && o.Rate <= 1e6) {
		wrong("--rate", "must be above 0 and at most 1000000 buyers per second, got %g", o.Rate)
	}
	for _, share := range []struct {
		name string
		v    float64
	}{{"--duplicate-clicks", o.DuplicateClicks}, {"--hang-ups", o.HangUps}, {"--keyless", o.Keyless}} {
		if !(share.v >= 0 && share.v <= 1) {
			wrong(share.name, "must be a share from 0 to 1, got %g", share.v)
		}
	}
	o.Fates.validate(wrong)
	if o.Keyless > 0 && o.Quota > 1 {
		wrong("--keyless", "must be 0 with a quota above 1, because keys are then required, got %g with a quota of %d", o.Keyless, o.Quota)
	}
	if o.Hold > 0 && o.Stock == 0 {
		wrong("--hold", "must be 0 for an existing sale (without --stock), got %v", o.Hold)
	}
	for _, n := range []struct {
		name string
		v    int
	}{
		{"--buyers", o.Buyers},
		{"--stock", o.Stock},
		{"--quota", o.Quota},
		{"--limit", o.Limit},
		{"--orders-per-buyer", o.OrdersPerBuyer},
		{"--quantity-max", o.QuantityMax},
		{"--connections", o.Connections},
		{"--followers", o.Followers},
		{"--attempts", o.Attempts},
	} {
		if n.v < 0 {
			wrong(n.name, "must be 0 (default) or more, got %d", n.v)
		}
	}
	for _, d := range []struct {
		name string
		v    time.Duration
	}{
		{"--hold", o.Hold},
		{"--window", o.Window},
		{"--duration", o.Duration},
		{"--ramp", o.Ramp},
		{"--request-timeout", o.RequestTimeout},
		{"--retry-wait", o.RetryWait},
		{"--drain-timeout", o.DrainTimeout},
	} {
		if d.v < 0 {
			wrong(d.name, "must be 0 (default) or more, got %v", d.v)
		}
	}
	if o.Connections == 1 || (o.Connections > 1 && o.Followers >= o.Connections) {
		wrong("--connections", "must be more than the followers, %d, got %d", max(o.Followers, 1), o.Connections)
	} else if o.Connections == 0 && o.Followers >= 2000 {
		wrong("--followers", "must be fewer than --connections, 2000 by default, got %d", o.Followers)
	}
	return errors.Join(errs...)
}

func isBaseURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.RawQuery == "" && u.Fragment == ""
}

func count(given ...bool) (n int) {
	for _, g := range given {
		if g {
			n++
		}
	}
	return n
}
