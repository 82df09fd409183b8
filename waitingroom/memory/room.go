package memory

import (
	"cmp"
	"slices"

	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// room is a room with its places.
type room struct {
	name     string
	row      row[store.Room] // without the end of its queue
	tail     row[tail]
	acts     row[[]store.Act]
	places   []*place            // by number
	subjects map[string][]*place // by subject, each by number
}

// tail is the end of a queue.
type tail struct {
	joined, gathered, most int64
	lanes                  []store.Tail
}

// place is the row of a place, which its room has while there is a version of it.
type place struct {
	row[kept]
	of      *room
	number  int64
	subject string
}

// kept is what is stored of a place.
type kept struct {
	store.Place
	activeRT int64 // end of turn and pass
}

// live reports whether a place can have a turn.
func (p *kept) live() bool { return p.LeftAt == 0 && p.Barred == "" && !p.Replaced }

// active reports whether a turn or pass ended after a room time.
func (p *kept) active(since int64) bool { return p.activeRT > 0 && p.activeRT > since }

// lapses reports whether turn or pass is over at a room time, and not recorded as such.
func (p *kept) lapses(rt int64) bool {
	return p.activeRT <= rt && p.LapsedAt == 0 && p.DoneAt == 0 && p.LeftAt == 0 && p.Barred == ""
}

// read returns a room with the end of its queue as a transaction sees them, or nil. The caller may change it.
func (r *room) read(by *tx, now int64) (*store.Room, error) {
	if r == nil || r.row.seen(by) == nil {
		return nil, nil
	}
	shown := *r.row.seen(by)
	shown.Saved.Lanes, shown.Saved.Now = slices.Clone(shown.Saved.Lanes), now
	return &shown, r.readTail(by, &shown.Saved)
}

func (r *room) readTail(by *tx, s *store.Saved) error {
	end := r.tail.seen(by)
	s.Joined, s.Gathered, s.MostQuantity = end.joined, end.gathered, end.most
	return s.SetTails(r.name, end.lanes)
}

// write stores what changes in a room, whose row is locked.
func (r *room) write(t *tx, changed *store.Room) {
	next := *changed
	next.Saved.Lanes = withoutTails(changed.Saved.Lanes)
	if old := r.row.seen(t); old != nil {
		next.Saved.Secret, next.Saved.Salt, next.Saved.Commit = old.Saved.Secret, old.Saved.Salt, old.Saved.Commit
	}
	r.row.write(&next)
}

// withoutTails returns what the row of the room holds of lanes.
func withoutTails(lanes []store.Lane) []store.Lane {
	all := slices.Clone(lanes)
	for i := range all {
		all[i].Tail = store.Tail{}
	}
	return all
}

// place returns a place; nil: there is none of that number.
func (r *room) place(number int64) *place {
	i, found := r.search(number)
	if !found {
		return nil
	}
	return r.places[i]
}

func (r *room) search(number int64) (int, bool) {
	return slices.BinarySearchFunc(r.places, number, func(p *place, number int64) int { return cmp.Compare(p.number, number) })
}

// newPlace adds a place that will be written.
func (r *room) newPlace(number int64, subject string) *place {
	p := &place{of: r, number: number, subject: subject}
	i, _ := r.search(number)
	r.places = slices.Insert(r.places, i, p)
	r.subjects[subject] = append(r.subjects[subject], p)
	return p
}

func (p *place) end(commit bool) {
	p.row.end(commit)
	if p.committed != nil || p.holder != nil {
		return
	}
	r := p.of
	i, found := r.search(p.number)
	if !found || r.places[i] != p { // a transaction that waited for another place has locked it after it was deleted
		return
	}
	r.places = slices.Delete(r.places, i, i+1)
	left := slices.DeleteFunc(r.subjects[p.subject], func(o *place) bool { return o == p })
	if r.subjects[p.subject] = left; len(left) == 0 {
		delete(r.subjects, p.subject)
	}
}

// matching returns the places that a transaction sees and that match, by number. Of a room that there is not, it returns none.
func (r *room) matching(by *tx, match func(*kept) bool) (found []*place) {
	if r == nil {
		return nil
	}
	for _, p := range r.places {
		if v := p.seen(by); v != nil && match(v) {
			found = append(found, p)
		}
	}
	return found
}

// current returns the current places of subjects, by number.
func (r *room) current(by *tx, subjects []string) (found []*place) {
	if r == nil {
		return nil
	}
	for _, subject := range subjects {
		for _, p := range r.subjects[subject] {
			if v := p.seen(by); v != nil && !v.Replaced {
				found = append(found, p)
			}
		}
	}
	slices.SortFunc(found, func(a, b *place) int { return cmp.Compare(a.number, b.number) })
	return slices.Compact(found)
}

// copied returns rooms as they are committed.
func copied(rooms []*room) []*room {
	all := make([]*room, len(rooms))
	for i, r := range rooms {
		c := &room{name: r.name, subjects: make(map[string][]*place)}
		c.row.committed, c.tail.committed, c.acts.committed = r.row.committed, r.tail.committed, r.acts.committed
		for _, p := range r.places {
			if p.committed != nil {
				c.newPlace(p.number, p.subject).committed = p.committed
			}
		}
		all[i] = c
	}
	return all
}
