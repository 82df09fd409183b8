package orders

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// reserveLate moves an order of an earlier epoch into the current one: with units that are free there, or with a Reason, so that it
// is written as rejected. A status is returned when the database already has the order.
func (c *committer) reserveLate(ctx context.Context, r Reservation) (Reservation, Status, error) {
	r.Reason = "" // of a rejection in an earlier epoch; it is decided again
	found, err := c.store.Statuses(ctx, []ID{r.ID})
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
		return r, "", fmt.Errorf("%w: order %s is of item %s/%s, which is not on sale", ErrUnavailable, r.ID, r.Sale, r.Item)
	}
	return c.reserveLateIn(ctx, ci, r, modeLate)
}

func (c *committer) reserveLateIn(ctx context.Context, ci *cachedItem, r Reservation, mode reserveMode) (Reservation, Status, error) {
	r.Epoch = ci.sale.Epoch
	replies, err := c.reserver.runReserve(ctx, ci, []Reservation{r}, mode)
	if err != nil {
		return r, "", err
	}
	d := replies[0]
	word, _ := d.string(), d.int64()
	switch word {
	case "reserved", "held":
		id, again, committed := d.holder(word, r)
		switch {
		case d.err != nil:
			return r, "", d.err
		case id != r.ID.String():
			r.Reason, r.Units = ReasonDuplicate, nil
			return r, "", nil
		case committed:
			return r, StatusConfirmed, nil // it was loaded from the database
		}
		return again, "", nil
	case "key_reused":
		r.Reason, r.Units = ReasonDuplicate, nil
		return r, "", nil
	case "quota_per_buyer", "sold_out", "not_enough":
		r.Reason, r.Units = ReasonRecoveredLate, nil
		return r, "", nil
	case "forgotten", "recovering":
		return r, "", c.forgotten(ci)
	case "damaged":
		return r, "", c.damaged(ci)
	}
	return r, "", fmt.Errorf("%w: reserve replied %.40q to a late order", ErrUnavailable, word)
}

// reassign replaces the units of an order that belong to another one, or makes it rejected when none is free.
func (c *committer) reassign(ctx context.Context, r Reservation, taken []int) (Reservation, error) {
	kept := slices.DeleteFunc(slices.Clone(r.Units), func(u int) bool { return slices.Contains(taken, u) })
	ci := c.sales.inEpoch(r.Sale, r.Item, r.Epoch)
	args := []any{r.ID.String(), r.record(), r.body(), r.AcceptedMS, len(taken), c.seen(ci)}
	for _, u := range kept {
		args = append(args, u)
	}
	reply, err := reassignScript.Run(ctx, c.rdb, ci.keys, args...).Slice()
	if err != nil {
		return r, unavailable(err)
	}
	d := decoder{reply: reply}
	switch word := d.string(); word {
	case "reassigned":
		again, err := ParseReservation([]byte(d.string()))
		ci.saw(d.string())
		return again, cmp.Or(err, d.err)
	case "sold_out":
		r.Reason = ReasonRecoveredLate
		return r, nil
	case "gone":
		// Redis does not have the order as pending, so it cannot replace its units: reserve it again.
		again, status, err := c.reserveLate(ctx, r)
		if err == nil && status != "" {
			err = fmt.Errorf("%w: order %s was settled meanwhile", ErrUnavailable, r.ID)
		}
		return again, err
	default:
		return r, fmt.Errorf("%w: reassign replied %.40q", ErrUnavailable, word)
	}
}
