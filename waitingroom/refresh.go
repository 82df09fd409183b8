package waitingroom

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/keyhash"
	"github.com/tidegate/tidegate/internal/periodic"
)

// lockRefresh takes the lock of the refreshes, which unlockRefresh releases. It fails when ctx ends.
func (s *Service) lockRefresh(ctx context.Context) error {
	select {
	case s.refreshing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return unavailable(ctx.Err())
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

// refreshOnce returns the result of a refresh that began, or failed, after the call. There is at most one each tickEvery, so requests for rooms that do not
// exist, or while the database does not answer, cost a few reads a second.
func (s *Service) refreshOnce(ctx context.Context) error {
	asked := s.now()
	if err := s.lockRefresh(ctx); err != nil {
		return err
	}
	wait := s.refreshed.Add(tickEvery).Sub(asked)
	s.unlockRefresh()
	if wait > 0 && !periodic.Pause(ctx, wait) {
		return unavailable(ctx.Err())
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
	rooms, err := s.store.rooms(ctx)
	if err != nil {
		return err
	}
	before := *s.views.Load()
	views := make(map[string]*view, len(rooms))
	for i := range rooms {
		r := &rooms[i]
		v, err := s.renew(ctx, before[r.Room], r, at)
		if err != nil {
			return err
		}
		views[r.Room] = v
	}
	var news []chan struct{}
	for name, old := range before {
		if views[name] == nil {
			delete(s.trees, name)
		}
		if v := views[name]; v == nil || v.changedSince(old) {
			news = append(news, old.changed)
		} else {
			v.changed = old.changed
		}
	}
	s.views.Store(&views)
	for _, changed := range news {
		close(changed)
	}
	return nil
}

// changedSince reports whether visitors who wait learn something from v that they did not from an older view.
func (v *view) changedSince(old *view) bool {
	return v.served() != old.served() || v.phase(v.now) != old.phase(old.now) || v.message != old.message || v.RatePerMin != old.RatePerMin ||
		v.drawn() != old.drawn()
}

// renew returns the view of a room, which continues an older one.
func (s *Service) renew(ctx context.Context, old *view, r *room, at time.Time) (v *view, err error) {
	if r.deleted() || old != nil && !old.sameLanes(&r.Definition) { // nobody had joined the old one
		delete(s.trees, r.Room)
		old = nil
	}
	lanes := len(r.lanes)
	v = &view{
		room: *r, fetched: at, changed: make(chan struct{}), skipped: make([]map[int64]int64, lanes), moved: make([]*progress, lanes), mu: &sync.Mutex{},
	}
	since := int64(0)
	if old != nil {
		v.skipped, since = old.skipped, old.now
	}
	if old != nil && old.salt == r.salt {
		v.subjects = old.subjects
	} else {
		v.subjects = keyhash.New([]byte(r.salt))
	}
	for i := range lanes {
		v.moved[i] = &progress{}
		if old != nil {
			v.moved[i] = old.moved[i].observe(&old.room, r, i)
		}
	}
	if old != nil && old.drawn() == r.drawn() {
		v.mu, v.orders = old.mu, old.orders
	} else if v.orders, err = r.orders(); err != nil {
		return nil, err
	}
	if lanes > 1 && r.Sale != "" && s.opts.Stock != nil {
		quota, err := s.opts.Stock.Quota(ctx, r.Sale, r.Item)
		if err == nil { // otherwise nothing is certain
			v.quota = int64(quota)
		}
	}
	if v.revoked, err = s.givenUp(ctx, r); err != nil || r.ended != "" {
		return v, err
	}
	if r.Mode == ModeDraw && !r.drawn() {
		if err := s.grow(ctx, s.store.db, r, r.gathered); err != nil {
			return nil, err
		}
	}
	// A transaction may commit some time after the time that it wrote.
	const overlap = 10 * time.Second
	gone, err := s.store.places(ctx, s.store.db, r.Room, `changed_at > 0 AND changed_at > $2 AND turn_rt = 0 AND (replaced = 1 OR left_at > 0 OR barred <> '') ORDER BY changed_at`,
		max(since-overlap.Milliseconds(), 0))
	drawnNow := old != nil && old.drawn() != r.drawn()
	if err != nil || len(gone) == 0 && !drawnNow {
		return v, err
	}
	all := make([]map[int64]int64, lanes)
	for i := range all {
		all[i] = make(map[int64]int64, len(v.skipped[i]))
		for number, position := range v.skipped[i] {
			if drawnNow {
				position = v.position(i, number)
			}
			all[i][number] = position
		}
	}
	for _, p := range gone {
		if !v.isSkipped(p) { // a position of a draw is ten hashes
			lane := v.laneOf(p)
			all[lane][p.laneNumber] = v.position(lane, p.laneNumber)
		}
	}
	if r.drawn() || r.Mode == ModeFIFO { // those that the cursor has passed are read from the database anyway
		for i := range all {
			maps.DeleteFunc(all[i], func(_, position int64) bool { return position < r.lanes[i].Served })
		}
	}
	v.skipped = all
	return v, nil
}

// view returns this process's copy of a room. It reads the database if the room is not in the copy, or the copy is stale.
func (s *Service) view(ctx context.Context, name string) (*view, error) {
	v := (*s.views.Load())[name]
	if v == nil && !validName(name) { // costs no read
		return nil, ErrUnknownRoom
	}
	if v == nil || v.stale(s.now()) {
		if err := s.refreshOnce(ctx); err != nil {
			return nil, err
		}
		if v = (*s.views.Load())[name]; v == nil {
			return nil, fmt.Errorf("%w: %s", ErrUnknownRoom, name)
		}
	}
	return v, nil
}

// givenUp returns the numbers of admitted places that were given up while their pass was valid, until it would have expired.
func (s *Service) givenUp(ctx context.Context, r *room) (map[int64]bool, error) {
	if r.served() == 0 || r.ended != "" && r.now-r.endedAt > MaxPassLifetime.Milliseconds() {
		return nil, nil
	}
	numbers := make(map[int64]bool)
	err := s.store.each(ctx, s.store.db, `SELECT seq FROM `+active("$2")+` WHERE admitted_at > 0 AND left_at > 0`,
		func(rows *sql.Rows) error {
			var seq int64
			err := rows.Scan(&seq)
			numbers[seq] = true
			return err
		}, r.Room, r.roomTime(r.now)-passSlack.Milliseconds())
	return numbers, err
}
