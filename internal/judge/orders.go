package judge

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// persisted is I1: every order that was answered with 202 is listed, once.
func (j *judge) persisted() (f Finding) {
	f.Checked = len(j.claimOf)
	rows := make(map[string]int, len(j.rows))
	for _, o := range j.rows {
		rows[o.OrderID]++
	}
	found := 0
	for _, cl := range j.claims {
		for _, id := range cl.ids {
			switch n := rows[id]; {
			case j.claimOf[id] != cl: // counted under the other key; I7 reports it
			case n == 0:
				f.breach("order %s of %s (key %s) was answered 202 but is not listed", id, cl.buyer, cl.key)
			case n > 1:
				f.breach("order %s is listed %d times", id, n)
			default:
				found++
			}
		}
	}
	return f.conclude("%s of %s answered 202 are listed", comma(found), comma(f.Checked))
}

// origins is I2, I8 and I18: the origin of each listed order that no 202 named. An order is explained by a claim of the same
// buyer and item whose outcome stayed open; a refused claim must not have left an order.
func (j *judge) origins() (i2, i8, i18 Finding) {
	kept := map[*claim]int{} // orders explained by claims that stayed open
	for _, o := range j.unique {
		if !j.ours(o) {
			continue
		}
		i2.Checked++
		if j.claimOf[o.OrderID] != nil {
			continue
		}
		claims := j.buyers[buyerItem{o.User, o.Item}]
		find := func(is func(*claim) bool) *claim {
			if i := slices.IndexFunc(claims, is); i >= 0 {
				return claims[i]
			}
			return nil
		}
		if find(func(cl *claim) bool { return j.rejectedAsDuplicate(cl, o) }) != nil {
			continue // not counted in kept: that place belongs to the order that has the key
		}
		explains := func(cl *claim) bool {
			n := kept[cl]
			return j.fromLostAnswer(cl, o, n) || j.executedLate(cl, o, n) || j.deliveredAfterStop(cl, o, n)
		}
		if cl := find(explains); cl != nil {
			kept[cl]++
		} else if cl := find(func(cl *claim) bool { return cl.lost > 0 && len(cl.ids) == 0 && !cl.open }); cl != nil {
			i18.breach("order %s of %s: the answer under key %s was lost and its repeat refused, but the order exists", o.OrderID, o.User, cl.key)
		} else if cl := find(func(cl *claim) bool { return cl.lost > 0 }); cl != nil {
			i18.breach("order %s of %s (%s): the lost answer under key %s became a second order beside %s",
				o.OrderID, o.User, strings.TrimSpace(string(o.Status)+" "+string(o.Reason)), cl.key, strings.Join(cl.ids, ", "))
		} else if cl := find(func(cl *claim) bool { return cl.refused }); cl != nil {
			i8.breach("order %s of %s exists, but the call that may have placed it was refused (key %s)", o.OrderID, o.User, cl.key)
		} else {
			i2.breach("order %s of %q for %q: no call asked for it", o.OrderID, o.User, o.Item)
		}
	}
	var lost, answered, never int
	for _, cl := range j.claims {
		if cl.refused {
			i8.Checked++
		}
		if cl.lost == 0 {
			continue
		}
		i18.Checked++
		lost += cl.lost
		switch {
		case len(cl.ids) > 0:
			answered++
		case kept[cl] == 0:
			never++
		}
	}
	listed := i18.Checked - answered - never
	return i2.conclude("%s orders of this crowd, each asked for", comma(i2.Checked-i2.Breaches)),
		i8.conclude("%s refused keys, %s left an order behind", comma(i8.Checked), comma(i8.Breaches)),
		i18.conclude("%s lost on %s keys: %s persisted (%s by the list alone), %s never did", comma(lost), comma(i18.Checked),
			comma(answered+listed), comma(listed), comma(never))
}

// fromLostAnswer reports whether the order can be the result of a lost response of the claim, in addition to n orders that were
// explained before. Without a key each lost response can be an order, if these orders lived one after another.
func (j *judge) fromLostAnswer(cl *claim, o *Order, n int) bool {
	if cl.key != "" {
		return cl.open && len(cl.ids) == 0 && n == 0
	}
	if n >= cl.lost {
		return false
	}
	if _, ended := j.earliestEnd(o.OrderID); ended {
		return true
	}
	return cl.open && !slices.ContainsFunc(cl.ids, func(id string) bool { _, ended := j.earliestEnd(id); return !ended })
}

// rejectedAsDuplicate reports whether the order was never answered with 202, and was rejected because another order has its key by now:
// a recovery found it in Redis or in a process's memory. It holds nothing, so the key still gave one order.
func (j *judge) rejectedAsDuplicate(cl *claim, o *Order) bool {
	return j.e.Faults && o.Status == rejected && o.Reason == "duplicate" && cl.lost > 0
}

// executedLate reports whether the order can be the result of a lost call whose script ran long after its repeat was refused: in a
// stopped server, or because the request to Redis was still on its way when the call was answered 503. Refusals are not stored, so that
// is permitted. Only the 503 at_capacity is decided.
func (j *judge) executedLate(cl *claim, o *Order, n int) bool {
	if !j.e.Faults || cl.key != "" && len(cl.ids)+n > 0 {
		return false
	}
	unknown, refused := 0, time.Duration(math.MaxInt64)
	for _, call := range cl.calls {
		switch {
		case call.Outcome == Lost && call.Reason != string(orders.ReasonAtCapacity):
			unknown++
		case call.Outcome == Refused:
			refused = min(refused, call.Started)
		}
	}
	const clocks = time.Second // by which the server's clock may differ from the crowd's
	return n < unknown && o.AcceptedAt.Sub(j.h.StartedAt) > refused-clocks
}

// hours is I13: nothing was accepted outside the sale's hours.
func (j *judge) hours() (f Finding) {
	for _, o := range j.unique {
		if o.AcceptedAt.IsZero() {
			continue
		}
		f.Checked++
		if o.AcceptedAt.Before(j.sale.StartsAt) || !o.AcceptedAt.Before(j.sale.EndsAt) {
			f.breach("order %s was accepted at %s; the hours are %s to %s", o.OrderID, stamp(o.AcceptedAt), stamp(j.sale.StartsAt),
				stamp(j.sale.EndsAt))
		}
	}
	return f.conclude("%s orders accepted %s to %s", comma(f.Checked), stamp(j.sale.StartsAt), stamp(j.sale.EndsAt))
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999Z") }

// overdue is how long after pay_before an order may still be waiting for its expiry.
const overdue = 5 * time.Second

// ends is I14: no order that was answered with 202 still waits for its commit, and none waits for a payment after its time.
// Orders that are not listed are checked by I1.
func (j *judge) ends() (f Finding) {
	waiting := 0
	for _, o := range j.unique {
		_, crowds := j.claimOf[o.OrderID]
		if !crowds && !j.ours(o) {
			continue
		}
		f.Checked++
		switch {
		case crowds && o.Status == accepted, !isStatus(o.Status):
			f.breach("order %s of %s is %q after the drain", o.OrderID, o.User, o.Status)
		case o.Status != confirmed || o.PayBefore.IsZero():
		case o.PayBefore.Add(overdue).Before(j.sale.Now):
			f.breach("order %s of %s had to be paid before %s, but is %q at %s", o.OrderID, o.User, stamp(o.PayBefore), o.Status,
				stamp(j.sale.Now))
		default:
			waiting++
		}
	}
	return f.conclude("%s of %s settled within the drain, %s wait for a payment", comma(f.Checked-f.Breaches-waiting), comma(f.Checked),
		comma(waiting))
}
