package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// writer reads and writes in a transaction.
type writer struct{ reader }

var _ store.Tx = writer{}

// exec is run without a result.
func (c writer) exec(ctx context.Context, op Op, fn func() error) error {
	_, err := run(ctx, c.reader, op, func() (struct{}, error) { return struct{}{}, fn() })
	return err
}

// Now returns the time of Options.Now.
func (c writer) Now(ctx context.Context) (int64, error) {
	return run(ctx, c.reader, "Now", func() (int64, error) { return c.of.db.now(), nil })
}

// Insert waits for another transaction that inserts the room.
func (c writer) Insert(ctx context.Context, fresh *store.Room) (bool, error) {
	return run(ctx, c.reader, "Insert", func() (bool, error) {
		r := c.of.db.newRoom(fresh.Terms.Room)
		if r.row.seen(c.tx) != nil {
			return false, nil
		}
		if err := c.tx.take(ctx, &r.row); err != nil || r.row.seen(c.tx) != nil {
			return false, err
		}
		if err := c.tx.take(ctx, &r.tail); err != nil {
			return false, err
		}
		s := &fresh.Saved
		r.write(c.tx, &store.Room{Terms: fresh.Terms, Saved: store.Saved{
			Secret: s.Secret, Salt: s.Salt, Commit: s.Commit, Lanes: s.Lanes, Brake: 1,
		}})
		r.tail.write(&tail{most: 1, lanes: store.TailsOf(s.Lanes)})
		return true, nil
	})
}

// Lock looks at the last tick before it waits, and again when it has the lock.
func (c writer) Lock(ctx context.Context, name string, idle int64) (*store.Room, error) {
	found, err := run(ctx, c.reader, "Lock", func() (*store.Room, error) {
		r := c.of.db.room(name)
		matches := func() bool {
			if r == nil || r.row.seen(c.tx) == nil {
				return false
			}
			ticked, now := r.row.seen(c.tx).Saved.TickedAt, c.of.db.now()
			return idle == 0 || ticked <= now-idle || ticked > now
		}
		if !matches() {
			return nil, nil
		}
		if err := c.tx.take(ctx, &r.row); err != nil || !matches() {
			return nil, err
		}
		return r.read(c.tx, c.of.db.now())
	})
	if err == nil && found == nil {
		err = store.UnknownRoom(name)
	}
	return found, err
}

// Write refuses what a constraint of the table does.
func (c writer) Write(ctx context.Context, changed *store.Room) error {
	return c.exec(ctx, "Write", func() error {
		r := c.of.db.room(changed.Terms.Room)
		if r == nil || r.row.seen(c.tx) == nil {
			return nil
		}
		if err := c.tx.take(ctx, &r.row); err != nil {
			return err
		}
		if changed.Terms.Beacon != "" && changed.Saved.DrawnAt != 0 && changed.Saved.Beacon.Signature == "" {
			return CheckViolation
		}
		r.write(c.tx, changed)
		return nil
	})
}

// Shrink locks the room.
func (c writer) Shrink(ctx context.Context, name string, most int, lane store.Lane) (more, deleted bool, err error) {
	err = c.exec(ctx, "Shrink", func() error {
		r := c.of.db.room(name)
		if r == nil {
			return nil
		}
		if err := c.lockAll(ctx, &r.row); err != nil {
			return err
		}
		if row := r.row.seen(c.tx); row == nil || row.Saved.Secret == "" {
			return nil
		}
		places := r.matching(c.tx, func(*kept) bool { return true })
		for _, p := range places[:min(most, len(places))] {
			if err := c.tx.take(ctx, p); err != nil {
				return err
			}
			p.write(nil)
			more = true
		}
		if more {
			return nil
		}
		if err := c.lockAll(ctx, &r.acts, &r.tail); err != nil {
			return err
		}
		lanes := []store.Lane{lane}
		next := *r.row.seen(c.tx)
		next.Terms.Sale, next.Terms.Item, next.Terms.Beacon = "", "", ""
		next.Saved.Lanes, next.Saved.Ended, next.Saved.Secret, next.Saved.Sale = withoutTails(lanes), "closed", "", ""
		next.Saved.Message, next.Saved.Root, next.Saved.Free, next.Saved.Promised = "", "", 0, 0
		next.Saved.NDrawn, next.Saved.DrawnAt, next.Saved.Beacon = 0, 0, store.Saved{}.Beacon
		r.row.write(&next)
		r.tail.write(&tail{most: 1, lanes: store.TailsOf(lanes)})
		r.acts.write(nil)
		deleted = true
		return nil
	})
	return more && err == nil, deleted && err == nil, err
}

func (c writer) lockAll(ctx context.Context, rows ...lockable) error {
	for _, r := range rows {
		if err := c.tx.take(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// lockTail locks the end of a queue.
func (c writer) lockTail(ctx context.Context, name string) (*room, error) {
	r := c.of.db.room(name)
	if r == nil || r.tail.seen(c.tx) == nil {
		return nil, fmt.Errorf("room %s has no queue", name)
	}
	return r, c.tx.take(ctx, &r.tail)
}

// LockTail reads the tail that others have committed meanwhile.
func (c writer) LockTail(ctx context.Context, name string, s *store.Saved) error {
	return c.exec(ctx, "LockTail", func() error {
		r, err := c.lockTail(ctx, name)
		if err != nil {
			return err
		}
		return r.readTail(c.tx, s)
	})
}

// WriteTail keeps the rest of the tail.
func (c writer) WriteTail(ctx context.Context, name string, lanes []store.Lane) error {
	return c.exec(ctx, "WriteTail", func() error {
		r, err := c.lockTail(ctx, name)
		if err != nil {
			return err
		}
		next := *r.tail.seen(c.tx)
		next.lanes = store.TailsOf(lanes)
		r.tail.write(&next)
		return nil
	})
}

// LockEnd returns a copy of the lanes, because its caller changes them.
func (c writer) LockEnd(ctx context.Context, name string) (*store.QueueEnd, error) {
	return run(ctx, c.reader, "LockEnd", func() (*store.QueueEnd, error) {
		r, err := c.lockTail(ctx, name)
		if err != nil {
			return nil, err
		}
		end := r.tail.seen(c.tx)
		return &store.QueueEnd{Joined: end.joined, Gathered: end.gathered, Lanes: slices.Clone(end.lanes), Now: c.of.db.now()}, nil
	})
}

// Add refuses a number that there is, and a second current place of a subject.
func (c writer) Add(ctx context.Context, name string, e *store.QueueEnd, joiners []store.Joiner, replaced []string) error {
	if len(joiners) == 0 {
		return nil
	}
	return c.exec(ctx, "Add", func() error {
		r, err := c.lockTail(ctx, name)
		if err != nil {
			return err
		}
		if _, err := c.change(ctx, r.current(c.tx, replaced), isCurrent, func(p *kept) {
			p.Replaced, p.ChangedAt = true, c.of.db.now()
		}); err != nil {
			return err
		}
		next := tail{e.Joined, e.Gathered, r.tail.seen(c.tx).most, slices.Clone(e.Lanes)}
		for i := range joiners {
			j := &joiners[i]
			if r.place(j.Number) != nil || len(r.current(c.tx, []string{j.Subject})) > 0 {
				return UniqueViolation
			}
			p := r.newPlace(j.Number, j.Subject)
			if err := c.tx.take(ctx, p); err != nil {
				return err
			}
			p.write(&kept{Place: store.Place{
				Number: j.Number, Lane: j.Lane, LaneNumber: j.LaneNumber, Subject: j.Subject, User: j.User, Quantity: j.Quantity,
				JoinedAt: e.Now, Again: j.Again, Position: -1,
			}})
			next.most = max(next.most, int64(j.Quantity))
		}
		r.tail.write(&next)
		return nil
	})
}

// RecordAct adds to what the room's lock protects.
func (c writer) RecordAct(ctx context.Context, name string, a *store.Act) error {
	return c.exec(ctx, "RecordAct", func() error {
		r := c.of.db.newRoom(name)
		if err := c.tx.take(ctx, &r.acts); err != nil {
			return err
		}
		next := *a
		next.At = c.of.db.now()
		all := append(slices.Clone(c.actsOf(name)), next)
		r.acts.write(&all)
		return nil
	})
}
