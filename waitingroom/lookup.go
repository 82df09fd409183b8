package waitingroom

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

func (s *Service) readBatch(ctx context.Context, name string, take taking[string, *store.Place]) {
	calls := take()
	subjects := make([]string, len(calls))
	for i, c := range calls {
		subjects[i] = c.In
	}
	found, err := s.store.BySubject(ctx, name, subjects)
	var seen map[string]int64
	if err == nil && len(found) > 0 {
		var row store.Room
		row, err = s.store.Cursors(ctx, name)
		seen = roomOf(&row).cursors()
	}
	for _, c := range calls {
		if c.Out, c.Err = found[c.In], err; err == nil && c.Out == nil {
			c.Err = ErrNotJoined
		} else if err == nil {
			c.Out.Seen = seen[c.Out.Lane]
		}
	}
}

// Place returns the visitor's place and changes nothing. With a token, nothing is read for those who wait. It returns ErrNotJoined.
func (s *Service) Place(ctx context.Context, name string, who Visitor) (Place, error) {
	c, err := s.holder(ctx, name, who)
	v, known := c.view, c.known
	if err == nil && known != nil {
		v, err = s.upToDate(ctx, v, known)
	}
	if err != nil {
		return Place{}, err
	}
	if known != nil && !v.isSkipped(known) && v.room.ended() == "" {
		if known.OfUser {
			known.User = who.User
		}
		if t := v.placeOf(known, v.clockNow(s.now())); t.State == StateGathering || t.State == StateWaiting && t.Position > v.servedFor(known) {
			t.Token = who.Token // which signing again would give
			if c.previous || v.seenBy(known) != known.Seen {
				t.Token = s.tokenOf(v, known)
			}
			return t, nil
		}
	}
	p, err := s.read(ctx, &c)
	if err == nil {
		v, err = s.upToDate(ctx, v, p)
	}
	if err != nil {
		return Place{}, err
	}
	return s.placeWithToken(v, p), nil
}

// upToDate returns a view of the room of v that is not older than its first place, before which the mode may change, and that has positions
// if the place was seen with one.
func (s *Service) upToDate(ctx context.Context, v *view, p *store.Place) (*view, error) {
	older := v.room.saved.Joined == 0 && v.room.ended() == "" // a deleted room has no places either
	if !older && (v.room.ordered() || p.Seen == 0) {
		return v, nil
	}
	return s.newer(ctx, v)
}

// newer refreshes, and returns the view of the room of v after it.
func (s *Service) newer(ctx context.Context, v *view) (*view, error) {
	if err := s.refreshOnce(ctx); err != nil {
		return nil, err
	}
	return s.view(ctx, v.room.def.Room)
}

// read returns the current place of a caller, or with byToken the one of the token, which may have been replaced.
func (s *Service) read(ctx context.Context, c *caller) (*store.Place, error) {
	name := c.view.room.def.Room
	p, err := s.reading.Do(ctx, name, c.subject)
	if err != nil || !c.who.byToken || p.Number == c.known.Number {
		return p, err
	}
	p, err = s.store.ByNumber(ctx, name, c.known.Number)
	if err == nil && (p == nil || p.Subject != c.subject) {
		err = ErrNotJoined
	}
	return p, err
}

// Wait is Place after the state differs from while, or the time is over, or ctx ends.
func (s *Service) Wait(ctx context.Context, name string, who Visitor, while State, within time.Duration) (Place, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		changed, err := s.Changed(ctx, name)
		if err != nil {
			return Place{}, err
		}
		p, err := s.Place(context.WithoutCancel(ctx), name, who)
		if err != nil || p.State != while {
			return p, err
		}
		who.Token = p.Token // so that the next look costs no query
		var until <-chan time.Time
		if p.State == StateTurn || p.State == StateAdmitted { // which end by the clock
			until = time.After(min(within, tickEvery*5))
		}
		select {
		case <-ctx.Done():
			return p, nil
		case <-changed:
		case <-until:
		}
	}
}

// placeWithToken returns a place as its visitor sees it, with its token.
func (s *Service) placeWithToken(v *view, p *store.Place) Place {
	t := v.placeOf(p, v.clockNow(s.now()))
	t.Token = s.tokenOf(v, p)
	return t
}

// tokenOf returns the token of a place, with what the view shows its visitor.
func (s *Service) tokenOf(v *view, p *store.Place) string {
	shown := *p
	shown.Seen = v.seenBy(p)
	return s.placeToken(v.room.def.Room, &shown)
}

// seenBy returns what the visitor of a place has seen with the view, which may be older.
func (v *view) seenBy(p *store.Place) int64 {
	if v.room.ordered() {
		return v.servedFor(p) + 1
	}
	return p.Seen
}
