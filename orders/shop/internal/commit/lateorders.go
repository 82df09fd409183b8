package commit

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop/internal/catalog"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/lua"
	"github.com/tidegate/tidegate/orders/shop/internal/reserve"
)

// reserveLate moves an order of an earlier epoch into the current one: with units that are free there, or with a Reason, so that it
// is written as rejected. A status is returned when the database already has the order.
func (c *Committer) reserveLate(ctx context.Context, r orders.Reservation) (orders.Reservation, orders.Status, error) {
	r.Reason = "" // of a rejection in an earlier epoch; it is decided again
	found, err := c.Store.Statuses(ctx, []orders.ID{r.ID})
	if err != nil {
		return r, "", err
	}
	if status, ok := found[r.ID]; ok {
		return r, status, nil
	}
	l, err := c.sales.Find(ctx, r.Sale)
	if err == nil && l.Epoch <= r.Epoch {
		l, err = c.sales.Reread(ctx, r.Sale)
	}
	if err != nil {
		return r, "", err
	}
	ci, ok := l.Cached[r.Item]
	if !ok {
		return r, "", fmt.Errorf("%w: order %s is of item %s/%s, which is not on sale", orders.ErrUnavailable, c.Shown(r.ID, r.Buyer), r.Sale,
			r.Item)
	}
	return c.ReserveLateIn(ctx, ci, r, reserve.ModeLate)
}

// ReserveLateIn does so in an item's epoch, on behalf of a leader if mode is its token. A status is returned when the order is
// stored already.
func (c *Committer) ReserveLateIn(
	ctx context.Context, ci *catalog.Item, r orders.Reservation, mode reserve.Mode,
) (orders.Reservation, orders.Status, error) {
	r.Epoch = ci.Sale.Epoch
	replies, err := c.reserver.RunReserve(ctx, ci, []orders.Reservation{r}, mode)
	if err != nil {
		return r, "", err
	}
	switch d := &replies[0]; d.Word {
	case "reserved", "held":
		again, committed, err := d.Holder(&r)
		switch {
		case err != nil:
			return r, "", core.Unavailable(err)
		case again.ID != r.ID:
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
		return r, "", c.sales.Forgotten(ci)
	case "damaged":
		return r, "", c.sales.Damaged(ci)
	}
	return r, "", fmt.Errorf("%w: reserve replied %.40q to a late order", orders.ErrUnavailable, replies[0].Word)
}

// reassign replaces the units of an order that belong to another one, or makes it rejected when none is free.
func (c *Committer) reassign(ctx context.Context, r orders.Reservation, taken []int) (orders.Reservation, error) {
	kept := slices.DeleteFunc(slices.Clone(r.Units), func(u int) bool { return slices.Contains(taken, u) })
	ci := c.sales.InEpoch(r.Sale, r.Item, r.Epoch)
	body, id := r.Body()
	args := []any{id, r.Record(), body, r.AcceptedMS, len(taken), ci.SeenBy(c.Writer)}
	for _, u := range kept {
		args = append(args, u)
	}
	d := lua.Reassign.Run(ctx, c.Batched, ci.Keys, args...)
	if d.Err() != nil {
		return r, core.Unavailable(d.Err())
	}
	switch word := d.Text(); word {
	case "reassigned":
		again, err := orders.ParseReservation([]byte(d.Text()))
		ci.Saw(d.Text())
		return again, cmp.Or(err, core.Unavailable(d.Err()))
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
