package rehearse

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// sent is I20: every planned call went out.
func (c *court) sent() (f Finding) {
	f.Checked = c.h.Planned
	first := map[int]int{}
	for i := range c.h.Calls {
		if c.h.Calls[i].Attempt == 1 {
			first[c.h.Calls[i].Seq]++
		}
	}
	if len(first) != c.h.Planned {
		f.breach("%d calls planned, %d sent", c.h.Planned, len(first))
	}
	for seq, n := range first {
		if n > 1 {
			f.breach("call %d was sent %d times as if it were the first", seq, n)
		}
	}
	return f.conclude("%s of %s", comma(len(first)), comma(c.h.Planned))
}

// keys is I7: a key gives one order, to whoever holds it no refusal, and an order has one key.
func (c *court) keys() (f Finding) {
	repeats := 0
	for _, cl := range c.claims {
		f.Checked++
		if len(cl.ids) > 1 {
			f.breach("key %s of %s gave orders %s", cl.key, cl.buyer, strings.Join(cl.ids, " and "))
		}
		since := time.Duration(-1) // when the buyer first knew of the order
		for _, call := range cl.calls {
			if call.Outcome == Admitted {
				repeats++
				if since < 0 || call.Ended < since {
					since = call.Ended
				}
			}
		}
		for _, call := range cl.calls {
			if call.Outcome == Refused && since >= 0 && call.Started > since {
				f.breach("key %s of %s held order %s and was refused: %s", cl.key, cl.buyer, cl.ids[0], call.Reason)
				break
			}
		}
		for _, id := range cl.ids {
			if other := c.held[id]; other != cl {
				f.breach("order %s was given for key %s of %s and for key %s of %s", id, other.key, other.buyer, cl.key, cl.buyer)
			}
		}
	}
	return f.conclude("%s keys, %s repeats of a 202", comma(f.Checked), comma(max(repeats-len(c.held), 0)))
}

// forward is I9: nobody saw a status after one that it cannot follow. Looks that overlapped in time say nothing of each other.
func (c *court) forward() (f Finding) {
	seen := make(map[string][]Sighting, len(c.held))
	for _, call := range c.h.Calls {
		if call.Outcome == Admitted && call.State != "" {
			seen[call.OrderID] = append(seen[call.OrderID], Sighting{OrderID: call.OrderID, State: call.State, Started: call.Started, Ended: call.Ended})
		}
	}
	for _, s := range c.h.Sightings {
		seen[s.OrderID] = append(seen[s.OrderID], s)
	}
	const after = time.Duration(1<<63 - 1) // the list was read after everything
	for _, o := range c.unique {
		if looks := seen[o.OrderID]; len(looks) > 0 {
			seen[o.OrderID] = append(looks, Sighting{OrderID: o.OrderID, State: o.Status, Started: after, Ended: after})
		}
	}
	for id, looks := range seen {
		f.Checked++
		slices.SortStableFunc(looks, func(a, b Sighting) int { return cmp.Compare(a.Ended, b.Ended) })
		if a, b, ok := backward(looks); ok {
			f.breach("order %s was %s, then %s", id, a, b)
		}
	}
	slices.Sort(f.Examples)
	return f.conclude("%s orders, %s looks", comma(f.Checked), comma(len(c.h.Sightings)))
}

// backward finds the first pair of looks, one wholly before the other, that no order can go through.
func backward(looks []Sighting) (from, to string, found bool) {
	for i, a := range looks {
		for _, b := range looks[i+1:] {
			if a.Ended < b.Started && !mayBecome(a.State, b.State) {
				return a.State, b.State, true
			}
		}
	}
	return "", "", false
}

// mayBecome is the order of statuses, steps that nobody saw included.
func mayBecome(from, to string) bool {
	switch {
	case from == to, from == accepted && isStatus(to):
		return true
	case from == "confirmed":
		return to == "paid" || to == "cancelled" || to == "expired"
	}
	return false
}

func isStatus(s string) bool {
	switch s {
	case accepted, "confirmed", "paid", "cancelled", "expired", "rejected":
		return true
	}
	return false
}

func comma(n int) string { return humanize.Comma(int64(n)) }
