package shop

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/orders"
)

// reserveLate moves an order of an earlier epoch into the current one: with units that are free there, or with a Reason, so that it
// is written as rejected. A status is returned when the database already has the order.
func (c *committer) reserveLate(ctx context.Context, r orders.Reservation) (orders.Reservation, orders.Status, error) {
	r.Reason = "" // of a rejection in an earlier epoch; it is decided again
	found, err := c.store.Statuses(ctx, []orders.ID{r.ID})
	if err != nil {
		return r, "", err
	}
	if status, ok := found[r.ID]; ok {
		return r, status, nil
	}
	l, err := c.sales.find(ctx, r.Sale)
	if err == nil && l.Epoch <= r.Epoch {
		l, err = c.sales.reread(ctx, r.Sale)
	}
	if err != nil {
		return r, "", err
	}
	ci, ok := l.cached[r.Item]
	if !ok {
		return r, "", fmt.Errorf("%w: order %s is of item %s/%s, which is not on sale", orders.ErrUnavailable, c.Shown(r.ID, r.Buyer), r.Sale, r.Item)
	}
	return c.reserveLateIn(ctx, ci, r, modeLate)
}

func (c *committer) reserveLateIn(ctx context.Context, ci *cachedItem, r orders.Reservation, mode reserveMode) (orders.Reservation, orders.Status, error) {
	r.Epoch = ci.sale.Epoch
	replies, err := c.reserver.runReserve(ctx, ci, []orders.Reservation{r}, mode)
	if err != nil {
		return r, "", err
	}
	d := replies[0]
	word, _ := d.Text(), d.Int()
	switch word {
	case "reserved", "held":
		id, again, committed, err := holder(&d, word, r)
		switch {
		case err != nil:
			return r, "", unavailable(err)
		case id != r.ID.String():
			r.Reason, r.Units = orders.ReasonDuplicate, nil
			return r, "", nil
		case committed:
			return r, orders.StatusConfirmed, nil // it was loaded from the database
		}
		return again, "", nil
	case "key_reused":
		r.Reason, r.Units = orders.ReasonDuplicate, nil
		return r, "", nil
	case "quota_per_buyer", "sold_out", "not_enough":
		r.Reason, r.Units = orders.ReasonRecoveredLate, nil
		return r, "", nil
	case "forgotten", "recovering":
		return r, "", c.sales.forgotten(ci)
	case "damaged":
		return r, "", c.sales.damaged(ci)
	}
	return r, "", fmt.Errorf("%w: reserve replied %.40q to a late order", orders.ErrUnavailable, word)
}

// reassign replaces the units of an order that belong to another one, or makes it rejected when none is free.
func (c *committer) reassign(ctx context.Context, r orders.Reservation, taken []int) (orders.Reservation, error) {
	kept := slices.DeleteFunc(slices.Clone(r.Units), func(u int) bool { return slices.Contains(taken, u) })
	ci := c.sales.inEpoch(r.Sale, r.Item, r.Epoch)
	args := []any{r.ID.String(), r.Record(), r.Body(), r.AcceptedMS, len(taken), c.seen(ci)}
	for _, u := range kept {
		args = append(args, u)
	}
	d := reassignScript.Run(ctx, c.rdb, ci.keys, args...)
	if d.Err() != nil {
		return r, unavailable(d.Err())
	}
	switch word := d.Text(); word {
	case "reassigned":
		again, err := orders.ParseReservation([]byte(d.Text()))
		ci.saw(d.Text())
		return again, cmp.Or(err, unavailable(d.Err()))
	case "sold_out":
		r.Reason = orders.ReasonRecoveredLate
		return r, nil
	case "gone":
		// Redis does not have the order as pending, so it cannot replace its units: reserve it again.
		again, status, err := c.reserveLate(ctx, r)
		if err == nil && status != "" {
			err = fmt.Errorf("%w: order %s was settled meanwhile", orders.ErrUnavailable, c.Shown(r.ID, r.Buyer))
		}
		return again, err
	default:
		return r, fmt.Errorf("%w: reassign replied %.40q", orders.ErrUnavailable, word)
	}
}
