package waitingroom

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// Status is a room as everybody may see it.
type Status struct {
	Definition

	Phase   Phase
	Now     time.Time // the database's clock, in which StartsAt is
	Served  int64     // positions of all lanes that have had their turn
	Joined  int64
	Waiting int64
	ByLane  []LaneStatus  // in the order of Lanes; one, without a name, in a room without lanes
	Free    *int64        // units; nil in a room without stock, and until they are first read, when people may join
	Brake   float64       // which part of its turns the room gives, because commits are slow; 1: all
	Lag     time.Duration // how long accepted orders of the item wait for their commit
	Message string
	Draw    *Draw // of a room in mode draw
}

// LaneStatus is a lane as everybody may see it.
type LaneStatus struct {
	Lane

	Served, Joined, Waiting int64
}

// OpenLane returns the lane of those who name none.
func (s *Status) OpenLane() *LaneStatus { return &s.ByLane[s.openLane()] }

// Draw is what is published of a draw: the commitment at once, root and N when the list of those who take part is complete, and
// the rest after the draw. Texts are hexadecimal.
type Draw struct {
	Commitment   string
	Root         string // empty until the list is complete
	N            int64  // places that are drawn
	Secret, Seed string // empty before the draw
	Beacon       *Beacon
}

// readWithin is how long a room is waited for that was read before.
const readWithin = time.Second

// latest is view, but returns the copy that was read before if the database does not answer soon.
func (s *Service) latest(ctx context.Context, name string) (*view, error) {
	before := (*s.views.Load())[name]
	if before == nil {
		return s.view(ctx, name)
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	v, err := s.view(ctx, name)
	if err != nil && !errors.Is(err, ErrUnknownRoom) {
		return before, nil
	}
	return v, err
}

// Room returns a room; one that was deleted is closed, and has no places. While the database does not answer, it is the room as it was read
// last, in PhaseRecovering unless it has ended. It returns ErrUnknownRoom, or ErrUnavailable if this process has never read the room.
func (s *Service) Room(ctx context.Context, name string) (Status, error) {
	v, err := s.latest(ctx, name)
	if err != nil {
		return Status{}, err
	}
	return v.status(s.now()), nil
}

// Rooms returns all rooms that are not deleted, by name.
func (s *Service) Rooms(ctx context.Context) ([]Status, error) {
	if err := s.refresh(ctx); err != nil {
		return nil, err
	}
	views := *s.views.Load()
	all := make([]Status, 0, len(views))
	for _, name := range slices.Sorted(maps.Keys(views)) {
		if views[name].room.deleted() {
			continue
		}
		all = append(all, views[name].status(s.now()))
	}
	return all, nil
}

// Changed returns a channel that is closed when turns were given, or the phase, the message, the rate or the draw have changed,
// since Room was called. Joins and stock do not close it.
func (s *Service) Changed(ctx context.Context, name string) (<-chan struct{}, error) {
	v, err := s.latest(ctx, name)
	if err != nil {
		return nil, err
	}
	return v.changed, nil
}

// saleMessage returns why the room stands still or has ended, if it does so with its sale.
func (r *room) saleMessage(now int64) string {
	if r.waitsForSale(now) || r.ended() == PhaseClosed {
		return saleMessages[r.saved.Sale]
	}
	return ""
}

func (v *view) status(local time.Time) Status {
	r, now := &v.room, v.clockNow(local)
	status := Status{
		Definition: r.def, Phase: r.phase(now), Now: time.UnixMilli(now).UTC(), Served: r.served(), Joined: r.saved.Joined,
		Brake: r.saved.Brake, Lag: time.Duration(r.saved.LagMS) * time.Millisecond, Message: cmp.Or(r.saved.Message, r.saleMessage(now)),
	}
	if r.def.Sale != "" && r.saved.TickedAt > 0 {
		status.Free = new(r.saved.Free)
	}
	for i, l := range r.saved.Lanes {
		status.ByLane = append(status.ByLane, LaneStatus{Lane{l.Name, l.Share, l.Tier}, l.Served, l.Tail.Joined, v.waiting(i)})
		status.Waiting += v.waiting(i)
	}
	if v.stale(local) && r.ended() == "" {
		status.Phase = PhaseRecovering
	}
	if r.def.Mode == ModeDraw {
		status.Draw = &Draw{Commitment: r.saved.Commit, Root: r.saved.Root, N: r.saved.NDrawn, Beacon: r.publicBeacon()}
		if r.drawn() {
			status.Draw.Secret, status.Draw.Seed = r.saved.Secret, v.seed
		}
	}
	return status
}
