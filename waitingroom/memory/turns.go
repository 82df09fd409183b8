package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// change locks places one after the other, and changes those that still match when it has their lock.
func (c writer) change(ctx context.Context, places []*place, match func(*kept) bool, alter func(*kept)) (n int, err error) {
	for _, p := range places {
		if err := c.tx.take(ctx, p); err != nil {
			return n, err
		}
		if v := p.seen(c.tx); v != nil && match(v) {
			next := *v
			alter(&next)
			p.write(&next)
			n++
		}
	}
	return n, nil
}

func isCurrent(p *kept) bool { return !p.Replaced }

// update changes places for which a further condition holds. One that is replaced meanwhile stays as it is. It reports whether it changed
// any.
func (c writer) update(
	ctx context.Context, op Op, room string, places []*store.Place, and func(*kept) bool, alter func(*kept),
) (bool, error) {
	return run(ctx, c.reader, op, func() (bool, error) {
		n, err := c.updateNow(ctx, room, places, and, alter)
		return n > 0, err
	})
}

func (c writer) updateNow(ctx context.Context, room string, places []*store.Place, and func(*kept) bool, alter func(*kept)) (int, error) {
	read := make(map[int64]*store.Place, len(places)) // as the caller has read them
	for _, p := range places {
		read[p.Number] = p
	}
	match := func(p *kept) bool {
		old := read[p.Number]
		return old != nil && p.Subject == old.Subject && (old.Replaced || !p.Replaced) && and(p)
	}
	return c.change(ctx, c.of.db.room(room).matching(c.tx, match), match, alter)
}

func always(*kept) bool { return true }

// Live returns them by number.
func (c writer) Live(ctx context.Context, room, lane string, numbers []int64) ([]*store.Place, error) {
	return c.numbered(ctx, "Live", room, lane, numbers, (*kept).live)
}

// NextLive looks at all places.
func (c writer) NextLive(ctx context.Context, room, lane string, after, upTo int64, most int) ([]*store.Place, error) {
	found, err := c.find(ctx, "NextLive", room, func(p *kept) bool {
		return p.Lane == lane && p.LaneNumber > after && p.LaneNumber <= upTo && p.live()
	})
	slices.SortFunc(found, func(a, b *store.Place) int { return cmp.Compare(a.LaneNumber, b.LaneNumber) })
	return first(found, most), err
}

// Unfinished returns them by number.
func (c writer) Unfinished(ctx context.Context, room string, numbers []int64) ([]*store.Place, error) {
	asked := set(numbers)
	return c.find(ctx, "Unfinished", room, func(p *kept) bool {
		return asked[p.Number] && p.LeftAt == 0 && p.DoneAt == 0 && p.Barred == ""
	})
}

// Passes looks at all places.
func (c writer) Passes(ctx context.Context, room string, since int64) ([]*store.Place, error) {
	return run(ctx, c.reader, "Passes", func() ([]*store.Place, error) {
		found := c.of.db.room(room).matching(c.tx, func(p *kept) bool {
			return p.active(since) && p.AdmittedAt > 0 && p.DoneAt == 0 && p.LeftAt == 0
		})
		c.byActivity(found)
		return c.rows(found), nil
	})
}

func (c writer) byActivity(places []*place) {
	slices.SortStableFunc(places, func(a, b *place) int { return cmp.Compare(a.seen(c.tx).activeRT, b.seen(c.tx).activeRT) })
}

// Count looks at all places.
func (c writer) Count(ctx context.Context, room string, m store.Moments) (store.Counts, error) {
	return run(ctx, c.reader, "Count", func() (n store.Counts, err error) {
		add := func(to *int64, is bool, amount int64) {
			if is {
				*to += amount
			}
		}
		for _, place := range c.of.db.room(room).matching(c.tx, func(p *kept) bool { return p.active(m.Past) }) {
			p := place.seen(c.tx)
			waits := p.AdmittedAt == 0 && p.LeftAt == 0 && p.Barred == "" && p.UntilRT > m.Now
			passes := p.AdmittedAt > 0 && p.DoneAt == 0 && p.LeftAt == 0 && p.PassRT > m.PassOver
			past := p.TurnRT <= m.Fresh && p.TurnRT > m.Past
			over := p.UntilRT <= m.Now && p.UntilRT > m.Over
			add(&n.Open, waits, 1)
			add(&n.OpenUnits, waits, int64(p.Quantity))
			add(&n.Active, passes, 1)
			add(&n.ActiveUnits, passes, int64(p.Quantity))
			add(&n.Claimed, p.AdmittedAt > m.ClaimedAfter, 1)
			add(&n.Fresh, waits && p.TurnRT > m.Fresh, 1)
			add(&n.Given, past, 1)
			add(&n.Taken, past && p.AdmittedAt > 0, 1)
			add(&n.Over, over, 1)
			add(&n.Used, over && p.AdmittedAt > 0, 1)
			add(&n.Lapsing, p.lapses(m.Now), 1)
		}
		return n, nil
	})
}

// GiveTurns leaves out subjects without a current place.
func (c writer) GiveTurns(ctx context.Context, room string, turns []store.Turn, rt, untilRT int64) error {
	return c.exec(ctx, "GiveTurns", func() error {
		given, subjects := make(map[string]store.Turn, len(turns)), make([]string, len(turns))
		for i, t := range turns {
			given[t.Subject], subjects[i] = t, t.Subject
		}
		_, err := c.change(ctx, c.of.db.room(room).current(c.tx, subjects), isCurrent, func(p *kept) {
			t, now := given[p.Subject], c.of.db.now()
			p.Position, p.Quantity, p.TurnRT, p.UntilRT, p.activeRT = t.Position, int(t.Quantity), rt, untilRT, untilRT
			p.TurnAt, p.ChangedAt = now, now
		})
		return err
	})
}

// Bar leaves out subjects without a current place.
func (c writer) Bar(ctx context.Context, room string, subjects []string, why, by string) error {
	return c.exec(ctx, "Bar", func() error {
		_, err := c.change(ctx, c.of.db.room(room).current(c.tx, subjects), isCurrent, func(p *kept) {
			p.Barred, p.BarredBy, p.ChangedAt = why, by, c.of.db.now()
		})
		return err
	})
}

// Admit begins the pass.
func (c writer) Admit(ctx context.Context, room string, p *store.Place, at, passRT int64) (bool, error) {
	return c.update(ctx, "Admit", room, []*store.Place{p}, always, func(p *kept) {
		p.AdmittedAt, p.PassRT, p.activeRT, p.ChangedAt = at, passRT, passRT, c.of.db.now()
	})
}

// ProlongTurn moves the end of the activity too.
func (c writer) ProlongTurn(ctx context.Context, room string, p *store.Place, untilRT int64) error {
	_, err := c.update(ctx, "ProlongTurn", room, []*store.Place{p}, always, func(p *kept) { p.UntilRT, p.activeRT = untilRT, untilRT })
	return err
}

// Leave keeps turn and pass.
func (c writer) Leave(ctx context.Context, room string, places []*store.Place) error {
	if len(places) == 0 {
		return nil
	}
	_, err := c.update(ctx, "Leave", room, places, always, func(p *kept) {
		now := c.of.db.now()
		p.LeftAt, p.ChangedAt = now, now
	})
	return err
}

// Ordered ends the activity of the place.
func (c writer) Ordered(ctx context.Context, room string, p *store.Place, order string, rt int64) error {
	_, err := c.update(ctx, "Ordered", room, []*store.Place{p}, always, func(p *kept) {
		c.finish(p, rt)
		p.OrderID = order
	})
	return err
}

// Finish ends the activity of the place.
func (c writer) Finish(ctx context.Context, room string, p *store.Place, rt int64) (bool, error) {
	admitted := func(p *kept) bool {
		return p.AdmittedAt > 0 && p.PassRT > rt && p.DoneAt == 0 && p.LeftAt == 0 && p.Barred == ""
	}
	return c.update(ctx, "Finish", room, []*store.Place{p}, admitted, func(p *kept) { c.finish(p, rt) })
}

// finish sets a place to done. Statistics of its turn still need it until the end of that.
func (c writer) finish(p *kept, rt int64) {
	now := c.of.db.now()
	p.DoneAt, p.ChangedAt, p.activeRT = now, now, max(p.UntilRT, rt)
}

// Lapse leaves out places that another transaction has locked.
func (c writer) Lapse(ctx context.Context, room string, since, rt int64) error {
	return c.exec(ctx, "Lapse", func() error {
		over := c.of.db.room(room).matching(c.tx, func(p *kept) bool { return p.active(since) && p.lapses(rt) })
		over = slices.DeleteFunc(over, func(p *place) bool { return p.holder != nil && p.holder != c.tx })
		_, err := c.updateNow(ctx, room, c.rows(over), always, func(p *kept) { p.LapsedAt = c.of.db.now() })
		return err
	})
}
