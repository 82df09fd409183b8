package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/internal/stock"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// reader reads in a transaction, or outside.
type reader struct {
	of *Store
	tx *tx // nil: outside
}

// rows returns copies of what the transaction sees of places.
func (c reader) rows(places []*place) []*store.Place {
	var all []*store.Place
	for _, p := range places {
		shown := p.seen(c.tx).Place
		all = append(all, &shown)
	}
	return all
}

// find returns the places of a room that match, by number.
func (c reader) find(ctx context.Context, op Op, room string, match func(*kept) bool) ([]*store.Place, error) {
	return run(ctx, c, op, func() ([]*store.Place, error) {
		return c.rows(c.of.db.room(room).matching(c.tx, match)), nil
	})
}

// count returns how many places of a room match.
func (c reader) count(ctx context.Context, op Op, room string, match func(*kept) bool) (int64, error) {
	return run(ctx, c, op, func() (int64, error) { return int64(len(c.of.db.room(room).matching(c.tx, match))), nil })
}

// Versions counts the commits of the database.
func (c reader) Versions(ctx context.Context) ([]store.Version, error) {
	return run(ctx, c, "Versions", func() (all []store.Version, err error) {
		for _, r := range c.of.db.rooms {
			if r.row.seen(c.tx) != nil {
				all = append(all, store.Version{Room: r.name, Version: fmt.Sprint(r.row.version, " ", r.tail.version), Now: c.of.db.now()})
			}
		}
		return all, nil
	})
}

// Rooms returns copies.
func (c reader) Rooms(ctx context.Context, names ...string) ([]store.Room, error) {
	return run(ctx, c, "Rooms", func() (all []store.Room, err error) {
		asked := set(names)
		for _, r := range c.of.db.rooms {
			if len(names) > 0 && !asked[r.name] {
				continue
			}
			shown, err := r.read(c.tx, c.of.db.now())
			if err != nil {
				return nil, err
			}
			if shown != nil {
				shown.Saved.LastActive = 0
				for _, p := range r.places {
					if v := p.seen(c.tx); v != nil {
						shown.Saved.LastActive = max(shown.Saved.LastActive, v.activeRT)
					}
				}
				all = append(all, *shown)
			}
		}
		return all, nil
	})
}

// Cursors returns a zero Room if there is none.
func (c reader) Cursors(ctx context.Context, name string) (store.Room, error) {
	return run(ctx, c, "Cursors", func() (found store.Room, err error) {
		if r := c.of.db.room(name); r != nil && r.row.seen(c.tx) != nil {
			row := r.row.seen(c.tx)
			found.Terms.Mode, found.Terms.StartsAt = row.Terms.Mode, row.Terms.StartsAt
			found.Saved.Root, found.Saved.DrawnAt, found.Saved.Lanes = row.Saved.Root, row.Saved.DrawnAt, slices.Clone(row.Saved.Lanes)
		}
		return found, nil
	})
}

// Closed looks at all rooms.
func (c reader) Closed(ctx context.Context) ([]store.Room, error) {
	return c.named(ctx, "Closed", func(r *store.Room) bool {
		return r.Saved.Ended == "closed" && r.Terms.Sale != "" && r.Saved.Sale != stock.Ended
	})
}

// Old looks at all rooms.
func (c reader) Old(ctx context.Context, ms int64) ([]store.Room, error) {
	return c.named(ctx, "Old", func(r *store.Room) bool {
		since := c.of.db.now() - ms
		return r.Saved.Ended != "" && r.Saved.Secret != "" && max(r.Saved.EndedAt, r.Saved.TickedAt, r.Terms.StartsAt) <= since
	})
}

func (c reader) named(ctx context.Context, op Op, match func(*store.Room) bool) ([]store.Room, error) {
	return run(ctx, c, op, func() (all []store.Room, err error) {
		for _, r := range c.of.db.rooms {
			if row := r.row.seen(c.tx); row != nil && match(row) {
				all = append(all, store.Room{Terms: store.Terms{Room: r.name, Sale: row.Terms.Sale, Item: row.Terms.Item}})
			}
		}
		return all, nil
	})
}

// BySubject returns copies.
func (c reader) BySubject(ctx context.Context, room string, subjects []string) (map[string]*store.Place, error) {
	return run(ctx, c, "BySubject", func() (map[string]*store.Place, error) {
		found := make(map[string]*store.Place, len(subjects))
		for _, p := range c.rows(c.of.db.room(room).current(c.tx, subjects)) {
			found[p.Subject] = p
		}
		return found, nil
	})
}

// ByNumber returns a copy.
func (c reader) ByNumber(ctx context.Context, room string, number int64) (*store.Place, error) {
	return run(ctx, c, "ByNumber", func() (*store.Place, error) {
		r := c.of.db.room(room)
		if r == nil || r.place(number) == nil || r.place(number).seen(c.tx) == nil {
			return nil, nil
		}
		return c.rows([]*place{r.place(number)})[0], nil
	})
}

// numbered returns those of some numbers of a lane that match, by number.
func (c reader) numbered(ctx context.Context, op Op, room, lane string, numbers []int64, match func(*kept) bool) ([]*store.Place, error) {
	asked := set(numbers)
	return c.find(ctx, op, room, func(p *kept) bool { return p.Lane == lane && asked[p.LaneNumber] && match(p) })
}

// ByLaneNumber returns them by number.
func (c reader) ByLaneNumber(ctx context.Context, room, lane string, numbers []int64) ([]*store.Place, error) {
	return c.numbered(ctx, "ByLaneNumber", room, lane, numbers, func(*kept) bool { return true })
}

// After looks at all places.
func (c reader) After(ctx context.Context, room, subject string, after int64, most int) ([]*store.Place, error) {
	found, err := c.find(ctx, "After", room, func(p *kept) bool { return p.Number > after && (subject == "" || p.Subject == subject) })
	return first(found, most), err
}

// Listed calls take after it has read everything.
func (c reader) Listed(ctx context.Context, room string, after, upTo int64, take func(*store.Place) error) error {
	found, err := c.find(ctx, "Listed", room, func(p *kept) bool { return p.Number > after && p.Number <= upTo })
	for _, p := range found {
		if err == nil {
			err = store.Unavailable(take(&store.Place{
				Number: p.Number, Lane: p.Lane, LaneNumber: p.LaneNumber, Subject: p.Subject, JoinedAt: p.JoinedAt,
			}))
		}
	}
	return err
}

// Gone looks at all places.
func (c reader) Gone(ctx context.Context, room string, since, rt int64, done bool) ([]*store.Place, error) {
	found, err := c.find(ctx, "Gone", room, func(p *kept) bool {
		return p.ChangedAt > 0 && p.ChangedAt > since && (p.TurnRT == 0 && !p.live() || p.PassRT > rt && (p.LeftAt > 0 || p.DoneAt > 0 && done))
	})
	slices.SortStableFunc(found, func(a, b *store.Place) int { return cmp.Compare(a.ChangedAt, b.ChangedAt) })
	return found, err
}

// Expired looks at all places.
func (c reader) Expired(ctx context.Context, room string, rt int64, most int) ([]*store.Place, error) {
	found, err := c.find(ctx, "Expired", room, func(p *kept) bool { return p.AdmittedAt > 0 && p.PassRT <= rt })
	slices.Reverse(found)
	return first(found, most), err
}

// CountPasses looks at all places.
func (c reader) CountPasses(ctx context.Context, room string, rt int64) (int64, error) {
	return c.count(ctx, "CountPasses", room, func(p *kept) bool {
		return p.active(rt) && p.AdmittedAt > 0 && p.PassRT > rt && p.DoneAt == 0 && p.LeftAt == 0
	})
}

// CountAdmitted looks at all places.
func (c reader) CountAdmitted(ctx context.Context, room string, since, at int64) (int64, error) {
	return c.count(ctx, "CountAdmitted", room, func(p *kept) bool { return p.active(since) && p.AdmittedAt > at })
}

// TakeCensus counts all places.
func (c reader) TakeCensus(ctx context.Context, room string) (*store.Census, error) {
	return run(ctx, c, "TakeCensus", func() (*store.Census, error) {
		all := &store.Census{ByLane: make(map[string]store.LaneCounts)}
		r := c.of.db.room(room)
		shown, err := r.read(c.tx, 0)
		if err != nil || shown == nil {
			return all, err
		}
		all.Lanes, all.Joined = shown.Saved.Lanes, shown.Saved.Joined
		subjects, positions := make(map[string]bool), make(map[string]map[int64]bool)
		for _, p := range c.rows(r.matching(c.tx, func(*kept) bool { return true })) {
			n, there := all.ByLane[p.Lane]
			if !there {
				n, positions[p.Lane] = store.LaneCounts{First: p.LaneNumber, LowestNumber: p.Number, Highest: -1}, make(map[int64]bool)
			}
			n.Places++
			n.First, n.Last = min(n.First, p.LaneNumber), max(n.Last, p.LaneNumber)
			n.LowestNumber, n.LastNumber = min(n.LowestNumber, p.Number), max(n.LastNumber, p.Number)
			if p.TurnRT > 0 {
				n.Turns, n.Highest = n.Turns+1, max(n.Highest, p.Position)
				positions[p.Lane][p.Position] = true
				n.Positions = int64(len(positions[p.Lane]))
			} else if p.LeftAt > 0 || p.Barred != "" || p.Replaced {
				n.Skipped++
			}
			if !p.Replaced {
				n.Current++
				subjects[p.Subject] = true
			}
			all.ByLane[p.Lane] = n
		}
		all.Subjects = int64(len(subjects))
		return all, nil
	})
}

// actsOf returns what operators did to a room.
func (c reader) actsOf(room string) []store.Act {
	if r := c.of.db.room(room); r != nil && r.acts.seen(c.tx) != nil {
		return *r.acts.seen(c.tx)
	}
	return nil
}

// Acts leaves out what history does not need, as the statement of package sqlstore does.
func (c reader) Acts(ctx context.Context, room string) ([]store.Act, error) {
	return run(ctx, c, "Acts", func() (found []store.Act, err error) {
		for _, a := range c.actsOf(room) {
			if a.Act == "hold" || a.Act == "resume" || a.Act == "close" {
				found = append(found, store.Act{At: a.At, Act: a.Act, Actor: a.Actor, Reason: a.Reason})
			}
		}
		return found, nil
	})
}

// ActOf looks at all acts.
func (c reader) ActOf(ctx context.Context, room, requestID string) (*store.Act, error) {
	return run(ctx, c, "ActOf", func() (found *store.Act, err error) {
		for _, a := range c.actsOf(room) {
			if a.RequestID == requestID {
				found = &store.Act{Act: a.Act, Detail: a.Detail}
			}
		}
		return found, nil
	})
}

func first(all []*store.Place, most int) []*store.Place { return all[:min(most, len(all))] }

func set[T comparable](all []T) map[T]bool {
	in := make(map[T]bool, len(all))
	for _, v := range all {
		in[v] = true
	}
	return in
}
