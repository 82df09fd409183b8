package waitingroom

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/keyhash"
	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// lockRefresh takes the lock of the refreshes, which unlockRefresh releases. It fails when ctx ends.
func (s *Service) lockRefresh(ctx context.Context) error {
	select {
	case s.refreshing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return store.Unavailable(ctx.Err())
	}
}

func (s *Service) unlockRefresh() { <-s.refreshing }

// refresh reads the rooms into this process's copy.
func (s *Service) refresh(ctx context.Context) error {
	if err := s.lockRefresh(ctx); err != nil {
		return err
	}
	defer s.unlockRefresh()
	return s.reread(ctx)
}

// refreshOnce returns the result of a refresh that began, or failed, after the call. There is at most one each tickEvery, so
// requests for rooms that do not exist, or while the database does not answer, cost a few reads a second.
func (s *Service) refreshOnce(ctx context.Context) error {
	asked := s.now()
	if err := s.lockRefresh(ctx); err != nil {
		return err
	}
	wait := s.refreshed.Add(tickEvery).Sub(asked)
	s.unlockRefresh()
	if wait > 0 && !periodic.Pause(ctx, wait) {
		return store.Unavailable(ctx.Err())
	}
	if err := s.lockRefresh(ctx); err != nil {
		return err
	}
	defer s.unlockRefresh()
	if s.refreshed.After(asked) {
		return s.refreshErr
	}
	return s.reread(context.WithoutCancel(ctx)) // the result is for others, too
}

// reread does a refresh. A result that took longer than staleAfter would be of no use. The caller holds the lock of the refreshes.
func (s *Service) reread(ctx context.Context) (err error) {
	at := s.now()
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, staleAfter)
	defer cancel()
	defer func() {
		switch {
		case err == nil:
			s.refreshed, s.refreshErr = at, nil
		case caller.Err() == nil:
			s.refreshed, s.refreshErr = s.now(), err
		}
	}()
	versions, err := s.store.Versions(ctx)
	if err != nil {
		return err
	}
	before := *s.views.Load()
	changed := s.changedRooms(before, versions)
	asOf := &moment{local: at}
	if len(versions) > 0 {
		asOf.now = versions[0].Now
	}
	for _, k := range versions {
		if v := before[k.Room]; v != nil && changed[k.Room] == "" {
			v.asOf.Store(asOf)
		}
	}
	if len(changed) == 0 && len(before) == len(versions) { // most refreshes while all rooms rest
		return nil
	}
	rooms, err := s.readRooms(ctx, changed)
	if err != nil {
		return err
	}
	views, damaged := make(map[string]*view, len(versions)), make(map[string]error)
	for _, k := range versions {
		if v := before[k.Room]; v != nil && changed[k.Room] == "" {
			views[k.Room] = v
		}
	}
	left := readListsWithin
	for i := range rooms {
		r := roomOf(&rooms[i])
		v, err := s.renew(ctx, before[r.def.Room], r, asOf, &left)
		switch {
		case errors.Is(err, ErrUnavailable):
			return err
		case err != nil: // the other rooms go on, and this one is shown as it was
			damaged[r.def.Room] = err
			if at.Sub(s.damagedAt) > 10*time.Second {
				s.damagedAt = at
				s.opts.Logger.ErrorContext(ctx, "a waiting room cannot be read", slog.String("room", r.def.Room), slog.Any("error", err))
			}
			v = before[r.def.Room]
		}
		if v != nil {
			views[r.def.Room] = v
		}
		if err == nil {
			v.version = changed[r.def.Room]
		}
	}
	var news []chan struct{}
	for name, old := range before {
		if views[name] == nil {
			delete(s.trees, name)
		}
		switch v := views[name]; {
		case v == old:
		case v == nil || v.room.changedSince(&old.room):
			news = append(news, old.changed)
		default:
			v.changed = old.changed
		}
	}
	s.views.Store(&views)
	s.damaged.Store(&damaged)
	for _, changed := range news {
		close(changed)
	}
	return nil
}

// changedRooms returns the versions of the rooms that have to be read: those that have changed, have come to another phase, or could not
// be read completely before. After a refresh that failed these are all rooms, because a database that lost its last commits may give
// a version again. The caller holds the lock of the refreshes.
func (s *Service) changedRooms(before map[string]*view, versions []store.Version) map[string]string {
	changed, damaged := make(map[string]string), *s.damaged.Load()
	for _, k := range versions {
		v := before[k.Room]
		if v == nil || s.refreshErr != nil || damaged[k.Room] != nil || v.version != k.Version ||
			v.room.phase(k.Now) != v.room.phase(v.room.saved.Now) || s.listBehind(&v.room) {
			changed[k.Room] = k.Version
		}
	}
	return changed
}

// roomsAtATime is the most rooms of a statement that names them.
const roomsAtATime = 500

// readRooms reads rooms: with few names these, otherwise all, of which the caller uses those that it needs.
func (s *Service) readRooms(ctx context.Context, changed map[string]string) ([]store.Room, error) {
	if len(changed) == 0 {
		return nil, nil
	}
	if len(changed) <= roomsAtATime {
		return s.store.Rooms(ctx, slices.Collect(maps.Keys(changed))...)
	}
	rooms, err := s.store.Rooms(ctx)
	return slices.DeleteFunc(rooms, func(r store.Room) bool { return changed[r.Terms.Room] == "" }), err
}

// listBehind reports whether this process has not read all places of a room that will be drawn. The caller holds the lock of the
// refreshes.
func (s *Service) listBehind(r *room) bool {
	if r.def.Mode != ModeDraw || r.drawn() || r.ended() != "" || r.saved.Gathered == 0 {
		return false
	}
	t := s.trees[r.def.Room]
	return t == nil || t.Size() < r.saved.Gathered
}

// changedSince reports whether visitors who wait learn something from a room that they did not from an older copy.
func (r *room) changedSince(old *room) bool {
	return r.served() != old.served() || r.phase(r.saved.Now) != old.phase(old.saved.Now) || r.saved.Message != old.saved.Message ||
		r.def.RatePerMin != old.def.RatePerMin ||
		r.drawn() != old.drawn() || r.listed() != old.listed() || r.saved.Sale != old.saved.Sale
}

// readListsWithin is how long a refresh reads lists of places. Long lists are read in several refreshes, so that they delay no other room.
const readListsWithin = time.Second

// renew returns the view of a room, which continues an older one. It reads the list of a draw for up to left, and subtracts the
// time that it took.
func (s *Service) renew(ctx context.Context, old *view, r *room, asOf *moment, left *time.Duration) (v *view, err error) {
	used := usageOf(r.def.Room, old, asOf.local)
	if r.deleted() || old != nil && !old.room.def.sameLanes(&r.def) { // the old one had no places
		delete(s.trees, r.def.Room)
		old = nil
	}
	lanes := len(r.saved.Lanes)
	v = &view{
		room: *r, read: asOf.local, usage: used, changed: make(chan struct{}),
		skipped: make([]map[int64]int64, lanes), early: make([][]int64, lanes), moved: make([]*progress, lanes), mu: &sync.Mutex{},
	}
	v.asOf.Store(asOf)
	if old != nil {
		v.skipped, v.early, v.revoked = old.skipped, old.early, old.revoked
	}
	if old != nil && old.room.saved.Salt == r.saved.Salt {
		v.subjects = old.subjects
	} else {
		v.subjects = keyhash.New([]byte(r.saved.Salt))
	}
	for i := range lanes {
		v.moved[i] = &progress{}
		if old != nil {
			v.moved[i] = old.moved[i].observe(&old.room, r, i)
		}
	}
	if old != nil && old.room.drawn() == r.drawn() {
		v.mu, v.orders, v.seed = old.mu, old.orders, old.seed
	} else if err := v.readDraw(); err != nil {
		return nil, err
	}
	if r.ended() != "" && r.saved.Now-r.saved.EndedAt > MaxPassLifetime.Milliseconds() {
		return v, nil
	}
	gone, err := s.readGone(ctx, v, old)
	if err != nil || r.ended() != "" {
		return v, err
	}
	if lanes > 1 && r.def.Sale != "" && s.opts.Stock != nil {
		quota, err := s.opts.Stock.Quota(ctx, r.def.Sale, r.def.Item)
		if err == nil { // otherwise nothing is certain
			v.quota = int64(quota)
		}
	}
	if r.def.Mode == ModeDraw && !r.drawn() {
		began := time.Now()
		reading, cancel := context.WithTimeout(ctx, *left)
		_ = s.grow(reading, s.store, r, r.saved.Gathered) // the draw reads on, and returns what is wrong with the list
		cancel()
		*left -= time.Since(began)
	}
	v.skip(old, gone)
	return v, nil
}

// readGone brings v.revoked, which is that of the older view, up to date, and returns places that were given up before their
// turn: those since then.
func (s *Service) readGone(ctx context.Context, v, old *view) (gone []*store.Place, err error) {
	if v.room.saved.Joined == 0 {
		return nil, nil
	}
	since := int64(0)
	if old != nil {
		since = old.room.saved.Now
	}
	// A transaction may commit some time after the time that it wrote.
	const overlap = 10 * time.Second
	all, err := s.store.Gone(ctx, v.room.def.Room,
		max(since-overlap.Milliseconds(), 0), v.room.roomTime(v.room.saved.Now)-passSlack.Milliseconds(), v.room.def.Sale == "")
	if err != nil {
		return nil, err
	}
	ended := make(map[int64]int64)
	for _, p := range all {
		if p.TurnRT > 0 {
			ended[p.Number] = p.PassRT
		} else {
			gone = append(gone, p)
		}
	}
	maps.Copy(ended, v.revoked)
	maps.DeleteFunc(ended, func(_, until int64) bool { return until <= v.room.roomTime(v.room.saved.Now)-passSlack.Milliseconds() })
	v.revoked = ended
	return gone, nil
}

// skip brings v.skipped and v.early, which are those of the older view, up to date.
func (v *view) skip(old *view, gone []*store.Place) {
	drawnNow, moved := false, false
	if old != nil {
		drawnNow, moved = old.room.drawn() != v.room.drawn(), old.room.served() != v.room.served()
	}
	passed := func(lane int, position int64) bool { // and no longer counted among those who joined and have not had their turn
		return (v.room.drawn() || v.room.def.Mode == ModeFIFO) && position < v.room.saved.Lanes[lane].Served
	}
	gone = slices.DeleteFunc(gone, func(p *store.Place) bool { // a position of a draw is ten hashes
		lane := v.laneOf(p)
		return v.isSkipped(p) || passed(lane, v.position(lane, p.LaneNumber))
	})
	if len(gone) == 0 && !drawnNow && !moved {
		return
	}
	all := make([]map[int64]int64, len(v.room.saved.Lanes))
	for lane := range all {
		all[lane] = make(map[int64]int64, len(v.skipped[lane]))
		for number, position := range v.skipped[lane] {
			if drawnNow {
				position = v.position(lane, number)
			}
			if !passed(lane, position) {
				all[lane][number] = position
			}
		}
	}
	early, added := slices.Clone(v.early), make([][]int64, len(v.room.saved.Lanes))
	if drawnNow { // what is known by then was given up before the draw
		for lane := range early {
			early[lane] = slices.Sorted(maps.Values(all[lane]))
		}
	}
	for _, p := range gone {
		lane := v.laneOf(p)
		position := v.position(lane, p.LaneNumber)
		all[lane][p.LaneNumber] = position
		if p.LeftAt > 0 && p.LeftAt <= v.room.saved.DrawnAt {
			added[lane] = append(added[lane], position)
		}
	}
	for lane, positions := range added {
		if len(positions) > 0 {
			early[lane] = slices.Concat(early[lane], positions)
			slices.Sort(early[lane])
		}
	}
	v.skipped, v.early = all, early
}

// readDraw reads the result of the draw, if the room has been drawn.
func (v *view) readDraw() (err error) {
	if v.room.drawn() {
		seed, err := v.room.drawSeed()
		if err != nil {
			return err
		}
		v.seed = seed.String()
	}
	v.orders, err = v.room.orders()
	return err
}

// view is find for a visitor who asks, so that the room is kept current.
func (s *Service) view(ctx context.Context, name string) (*view, error) {
	v, err := s.find(ctx, name)
	if err == nil {
		s.use(v)
	}
	return v, err
}

// find returns this process's copy of a room. It reads the database if the room is not in the copy, or the copy is stale.
func (s *Service) find(ctx context.Context, name string) (*view, error) {
	v := (*s.views.Load())[name]
	if v == nil && !ValidName(name) { // costs no read
		return nil, ErrUnknownRoom
	}
	if v == nil || v.stale(s.now()) {
		if err := s.refreshOnce(ctx); err != nil {
			return nil, err
		}
		if err := (*s.damaged.Load())[name]; err != nil {
			return nil, store.Unavailable(err)
		}
		if v = (*s.views.Load())[name]; v == nil {
			return nil, fmt.Errorf("%w: %s", ErrUnknownRoom, name)
		}
	}
	return v, nil
}
