package rehearse

import (
	"cmp"
	"math/rand/v2"
	"time"
)

// Shares are what buyers do with their orders: each share is of the orders, or of the payments, that it names. Orders that are
// neither paid nor cancelled are left alone, and expire where the sale has a hold time. The zero value leaves every order
// alone. Payments come as from a payment provider: over the internal API, each repeated with its reference until it is
// answered.
type Shares struct {
	Paid      float64 // share of orders that are paid; together with Cancelled and Races at most 1
	Cancelled float64 // share of orders that their buyers cancel
	Races     float64 // share of orders that are paid and cancelled at the same instant
	Reorders  float64 // share of the cancelled orders whose buyers then order again, half of them at once; 0..1
	Early     float64 // share of payments sent right after the 202, most of them before the commit; with Late at most 1
	Late      float64 // share of payments sent about pay_before or after it, where the sale has a hold time
	Repeated  float64 // share of payments sent twice under the same reference; 0..1
	Doubled   float64 // share of payments followed by one with another reference, which is a refund; 0..1
}

// WholeLife is a mix of everything: half of the orders are paid, a tenth is cancelled, and the rest is left to expire and to be
// sold again.
func WholeLife() Shares {
	return Shares{Paid: 0.5, Cancelled: 0.1, Races: 0.05, Reorders: 0.5, Early: 0.1, Late: 0.1, Repeated: 0.1, Doubled: 0.05}
}

func (f Shares) validate(errs *OptionErrors) {
	errs.CheckShares(
		Share{"--paid", f.Paid},
		Share{"--cancelled", f.Cancelled},
		Share{"--races", f.Races},
		Share{"--reorders", f.Reorders},
		Share{"--early", f.Early},
		Share{"--late", f.Late},
		Share{"--repeated", f.Repeated},
		Share{"--doubled", f.Doubled},
	)
	const rounding = 1e-9
	if all := f.Paid + f.Cancelled + f.Races; all > 1+rounding {
		errs.Add("--paid, --cancelled, --races", "must be at most 1 together, got %g", all)
	}
	if all := f.Early + f.Late; all > 1+rounding {
		errs.Add("--early, --late", "must be at most 1 together, got %g", all)
	}
}

// ending is what a buyer does with an order.
type ending uint8

const (
	isLeft ending = iota
	isPaid
	isCancelled
	isContested // paid and cancelled at the same time
)

// moment is when a payment is sent.
type moment uint8

const (
	afterCommit moment = iota
	afterAnswer        // right after the 202
	atExpiry
)

// orderPlan is what is planned for an order. One is drawn for each key of the plan, whether or not the key gets an order.
type orderPlan struct {
	ending   ending
	moment   moment
	after    time.Duration // counts from the commit seen; atExpiry: from pay_before, and may be below 0
	repeat   bool          // the same reference twice
	double   bool          // also a payment with another reference
	together bool          // the further payments are sent at the same time as the first one, not after its answer; a reorder comes at once
	reorder  bool          // orders again after a cancel
}

// planOrder always consumes the same number of draws, so that a changed share does not change the other orders.
func planOrder(r *rand.Rand, o Options) orderPlan {
	var (
		is    = func(share float64) bool { return r.Float64() < share }
		which = r.Float64()
		when  = r.Float64()
		think = time.Duration(r.Float64() * float64(cmp.Or(min(o.Hold/3, 2*time.Second), 500*time.Millisecond)))
		miss  = r.Float64()
		plan  = orderPlan{
			after: think, repeat: is(o.Shares.Repeated), double: is(o.Shares.Doubled), together: is(0.5),
			reorder: is(o.Shares.Reorders),
		}
	)
	switch {
	case which < o.Shares.Paid:
		plan.ending = isPaid
	case which < o.Shares.Paid+o.Shares.Cancelled:
		plan.ending = isCancelled
	case which < o.Shares.Paid+o.Shares.Cancelled+o.Shares.Races:
		plan.ending = isContested
	default:
		return orderPlan{}
	}
	if plan.ending != isPaid {
		plan.repeat, plan.double = false, false
		plan.reorder = plan.reorder && plan.ending == isCancelled
		return plan
	}
	plan.reorder = false
	switch {
	case when < o.Shares.Early:
		plan.moment, plan.after = afterAnswer, 0
	case when < o.Shares.Early+o.Shares.Late:
		plan.moment = atExpiry
		if miss < 0.5 { // as close to the expiry as the network allows
			plan.after = time.Duration((4*miss - 1) * float64(50*time.Millisecond))
		} else {
			plan.after = time.Duration((2*miss - 1) * float64(cmp.Or(min(o.Hold, 2*time.Second), 2*time.Second)))
		}
	}
	return plan
}
