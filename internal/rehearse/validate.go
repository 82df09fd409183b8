package rehearse

import (
	"net/url"
	"time"
)

// validate checks the options before defaults are applied, and reports all invalid ones at once.
func (o Options) validate() error {
	var errs OptionErrors
	o.checkTargets(&errs)
	o.checkArrivals(&errs)
	errs.CheckShares(
		Share{"--duplicate-clicks", o.DuplicateClicks},
		Share{"--hang-ups", o.HangUps},
		Share{"--keyless", o.Keyless},
	)
	o.Shares.validate(&errs)
	if o.Keyless > 0 && o.Quota > 1 {
		errs.Add("--keyless", "must be 0 with a quota above 1, because keys are then required, got %g with a quota of %d", o.Keyless, o.Quota)
	}
	if o.Hold > 0 && o.Stock == 0 {
		errs.Add("--hold", "must be 0 for an existing sale (without --stock), got %v", o.Hold)
	}
	checkNotNegative(&errs, []number[int]{
		{"--buyers", o.Buyers},
		{"--stock", o.Stock},
		{"--quota", o.Quota},
		{"--limit", o.Limit},
		{"--orders-per-buyer", o.OrdersPerBuyer},
		{"--quantity-max", o.QuantityMax},
		{"--connections", o.Connections},
		{"--followers", o.Followers},
		{"--attempts", o.Attempts},
	})
	checkNotNegative(&errs, []number[time.Duration]{
		{"--hold", o.Hold},
		{"--window", o.Window},
		{"--duration", o.Duration},
		{"--ramp", o.Ramp},
		{"--request-timeout", o.RequestTimeout},
		{"--retry-wait", o.RetryWait},
		{"--drain-timeout", o.DrainTimeout},
	})
	if o.Connections == 1 || (o.Connections > 1 && o.Followers >= o.Connections) {
		errs.Add("--connections", "must be more than the followers, %d, got %d", max(o.Followers, 1), o.Connections)
	} else if o.Connections == 0 && o.Followers >= 2000 {
		errs.Add("--followers", "must be fewer than --connections, 2000 by default, got %d", o.Followers)
	}
	return errs.Err()
}

func (o Options) checkTargets(errs *OptionErrors) {
	if len(o.PublicURLs) == 0 {
		errs.Add("--target", "is required: at least one URL such as http://127.0.0.1:8080")
	}
	for _, u := range o.PublicURLs {
		if !isBaseURL(u) {
			errs.Add("--target", "must be a base URL such as http://127.0.0.1:8080, got %q", u)
		}
	}
	if !isBaseURL(o.InternalURL) {
		errs.Add("--internal", "must be a base URL such as http://127.0.0.1:8081, got %q", o.InternalURL)
	}
	if o.Sale == "" {
		errs.Add("--sale", "is required: the name of the sale")
	}
	for _, item := range o.Items {
		if item == "" {
			errs.Add("--item", "must be names of items, got an empty one")
		}
	}
}

func (o Options) checkArrivals(errs *OptionErrors) {
	switch given := count(o.Buyers != 0, o.Rate != 0, o.Duration != 0); {
	case given < 2:
		errs.Add("--buyers, --rate, --duration", "must be two of the three, got %d", given)
	case given > 2:
		errs.Add("--buyers, --rate, --duration", "must be two of the three, got all")
	case o.Buyers == 0 && int(wave{rate: o.Rate, ramp: o.Ramp}.arrivedBy(o.Duration)) < 1:
		errs.Add("--duration", "must be long enough for one buyer at %g per second, got %v", o.Rate, o.Duration)
	case o.Rate == 0 && o.Duration > 0 && o.Duration < o.Ramp:
		errs.Add("--ramp", "must be at most --duration %v, got %v", o.Duration, o.Ramp)
	}
	if !(o.Rate >= 0 && o.Rate <= 1e6) {
		errs.Add("--rate", "must be above 0 and at most 1000000 buyers per second, got %g", o.Rate)
	}
}

// number is an option that must be 0 or more.
type number[T int | time.Duration] struct {
	option string
	value  T
}

func checkNotNegative[T int | time.Duration](errs *OptionErrors, numbers []number[T]) {
	for _, n := range numbers {
		if n.value < 0 {
			errs.Add(n.option, "must be 0 (default) or more, got %v", n.value)
		}
	}
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
