package waitingroom

import (
	"cmp"
	"context"
	"slices"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// Filter selects places of a room, in the order of their numbers.
type Filter struct {
	User  string // optional: all places that the user has had
	After int64  // number; exclusive
	Limit int
}

// Places returns places for operators, replaced ones too. Those have StateLapsed or StateLeft. With a user they have their steps.
func (s *Service) Places(ctx context.Context, name string, f Filter) ([]Place, error) {
	v, err := s.view(ctx, name)
	if err != nil {
		return nil, err
	}
	subject := ""
	if f.User != "" {
		subject = v.subject("user", f.User)
	}
	rows, err := s.store.After(ctx, name, subject, f.After, f.Limit)
	if err != nil {
		return nil, err
	}
	var acts []store.Act
	if f.User != "" {
		if acts, err = s.store.Acts(ctx, name); err != nil {
			return nil, err
		}
	}
	all := s.placesOf(v, rows)
	for i, p := range rows {
		if f.User != "" {
			all[i].Steps = v.room.history(p, acts)
		}
	}
	return all, nil
}

// placesOf returns places as operators see them, without tokens.
func (s *Service) placesOf(v *view, rows []*store.Place) []Place {
	all, now := make([]Place, len(rows)), v.clockNow(s.now())
	for i, p := range rows {
		all[i] = v.placeOf(p, now)
	}
	return all
}

// Turns returns the places of a lane that have had their turn at the positions from after + 1 to upTo, in the order of the
// positions. Positions that this process has not seen pass yet are left out. The places have no tokens.
func (s *Service) Turns(ctx context.Context, name, lane string, after, upTo int64) ([]Place, error) {
	v, err := s.view(ctx, name)
	if err != nil {
		return nil, err
	}
	i := v.room.laneIndex(lane)
	if i < 0 {
		return nil, failure.New(ErrInvalid, "room %s has no lane %s", name, lane)
	}
	var numbers []int64
	v.mu.Lock()
	for position := max(after, 0); position < min(upTo, v.room.saved.Lanes[i].Served); position++ {
		numbers = append(numbers, v.orders[i].Number(position))
	}
	v.mu.Unlock()
	if len(numbers) == 0 {
		return nil, nil
	}
	found, err := s.store.ByLaneNumber(ctx, name, lane, numbers)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(p *store.Place) bool { return p.TurnRT == 0 }) // left or barred before
	slices.SortFunc(found, func(a, b *store.Place) int { return cmp.Compare(a.Position, b.Position) })
	return s.placesOf(v, found), nil
}

// Pace is how fast a room admits visitors.
type Pace struct {
	Admitted int64   // visitors who claimed in the last minute
	Outlook  Outlook // of somebody who joins now
}

// Pace returns how fast a room admits visitors. It reads the passes of the last minute, if there may be any.
func (s *Service) Pace(ctx context.Context, name string) (p Pace, err error) {
	v, err := s.find(ctx, name)
	if err != nil {
		return Pace{}, err
	}
	if p.Outlook = OutlookNone; v.room.ended() == "" {
		p.Outlook = v.outlook(v.room.def.openLane(), v.waiting(v.room.def.openLane()))
	}
	since := measured.Milliseconds()
	now := v.clockNow(s.now())
	if v.room.saved.LastActive <= v.room.roomTime(now)-since {
		return p, nil
	}
	p.Admitted, err = s.store.CountAdmitted(ctx, name, v.room.roomTime(now)-since, now-since)
	return p, err
}
