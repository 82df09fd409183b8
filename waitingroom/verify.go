package waitingroom

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/tidegate/tidegate/waitingroom/draw"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// Check is the result of one comparison by Verify.
type Check struct {
	Name   string
	OK     bool
	Detail string
}

// Verify compares a room with itself: the cursor with the turns, the draw with the list, and the turns with the stock. Only the last of
// these locks the room, which is quick; what reads all places does not, so no request waits for it.
func (s *Service) Verify(ctx context.Context, name string) ([]Check, error) {
	if err := s.refresh(ctx); err != nil {
		return nil, err
	}
	v, err := s.view(ctx, name)
	if err != nil {
		return nil, err
	}
	checks, err := s.verifyPlaces(ctx, name)
	if err != nil {
		return nil, err
	}
	if v.room.def.Mode == ModeDraw && v.room.drawn() {
		drawn, err := s.verifyDraw(ctx, &v.room)
		if err != nil {
			return nil, err
		}
		checks = append(checks, drawn)
	}
	promises, err := s.verifyPromises(ctx, name)
	return append(checks, promises...), err
}

func check(name string, ok bool, format string, args ...any) Check {
	return Check{name, ok, fmt.Sprintf(format, args...)}
}

// verifyPlaces reads cursors, tail and places in one statement, and so as they were at one moment.
func (s *Service) verifyPlaces(ctx context.Context, name string) ([]Check, error) {
	all, err := s.store.TakeCensus(ctx, name)
	if err != nil {
		return nil, err
	}
	first, last := int64(1), int64(0)
	var places, current int64
	for _, n := range all.ByLane {
		places, first, last, current = places+n.Places, min(first, n.LowestNumber), max(last, n.LastNumber), current+n.Current
	}
	dense := true
	var checks []Check
	for i := range all.Lanes {
		l := &all.Lanes[i]
		n, ok := all.ByLane[l.Name]
		if !ok {
			n.Highest = -1
		}
		of := ""
		if l.Name != "" {
			of = " of lane " + l.Name
		}
		dense = dense && (n.Places == 0 || n.First == 1) && n.Last == n.Places && n.Last == l.Tail.Joined
		checks = append(checks,
			check("cursor"+of, l.Served <= n.Last && n.Highest < l.Served,
				"%d of %d positions have had their turn, the last turn is at position %d", l.Served, n.Last, n.Highest+1),
			check("turns"+of, n.Positions == n.Turns && n.Turns <= l.Served && l.Served <= n.Turns+n.Skipped,
				"%d turns at %d positions, %d positions were skipped, %d places left before their turn",
				n.Turns, n.Positions, l.Served-n.Turns, n.Skipped))
	}
	return append([]Check{
		check("numbers", first == 1 && last == places && last == all.Joined && dense, "%d places have the numbers %d to %d, and %d joined",
			places, first, last, all.Joined),
		check("one place a visitor", all.Subjects == current, "%d visitors have %d current places", all.Subjects, current),
	}, checks...), nil
}

// verifyDraw computes the root of a draw again. What it reads does not change any more.
func (s *Service) verifyDraw(ctx context.Context, r *room) (Check, error) {
	t := draw.NewTree()
	if err := s.store.Listed(ctx, r.def.Room, 0, r.saved.NDrawn,
		func(p *store.Place) error { return t.Add(entryOf(p).Leaf(r.def.Room)) }); err != nil {
		return Check{}, err
	}
	root, err := t.Root()
	if err == nil && r.def.Beacon != "" {
		if err := r.saved.Beacon.Verify(r.def.StartsAt); err != nil {
			return check("draw", false, "%v", err), nil
		}
	}
	return check("draw", hex.EncodeToString(root) == r.saved.Root && t.Size() == r.saved.NDrawn,
		"%d places give the root %x, published is %s", t.Size(), root, r.saved.Root), err
}

// verifyPromises compares the turns and passes that can still be used with the capacity and the stock, which the lock keeps as they are.
func (s *Service) verifyPromises(ctx context.Context, name string) (checks []Check, err error) {
	_, err = s.locked(ctx, name, func(tx store.Tx, r *room) error {
		checks = nil
		f, err := count(ctx, tx, r)
		if err != nil {
			return err
		}
		if r.def.Capacity > 0 {
			checks = append(checks, check("capacity", f.Active <= int64(r.def.Capacity), "%d are admitted, at most %d may be", f.Active,
				r.def.Capacity))
		}
		if r.def.Sale == "" || r.def.Bound != BoundStrict || r.saved.Stalled || r.ended() == PhaseClosed {
			return nil
		}
		if _, err := s.settle(ctx, tx, r); err != nil {
			return err
		}
		if f, err = count(ctx, tx, r); err != nil {
			return err
		}
		checks = append(checks, check("stock", f.OpenUnits+f.ActiveUnits <= r.saved.Free, "turns and passes for %d units, and %d are free",
			f.OpenUnits+f.ActiveUnits, r.saved.Free))
		return nil
	})
	return checks, err
}
