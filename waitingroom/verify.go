package waitingroom

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/waitingroom/draw"
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

// laneFacts are counts of a lane's places.
type laneFacts struct {
	places, first, last       int64 // first and last number in the lane
	turns, positions, highest int64 // of places that had a turn
	skipped                   int64 // places that left or were barred before
}

// verifyPlaces reads cursors, tail and places in one statement, and so as they were at one moment.
func (s *Service) verifyPlaces(ctx context.Context, name string) ([]Check, error) {
	var r room
	var places, first, last, current, subjects int64
	found := make(map[string]laneFacts)
	if err := each(ctx, s.store.db.Conn, `SELECT r.lanes, t.lanes, t.joined, coalesce(p.lane, ''), count(p.seq), coalesce(min(p.lane_seq), 1), coalesce(max(p.lane_seq), 0),
			count(*) FILTER (WHERE p.turn_rt > 0), count(DISTINCT CASE WHEN p.turn_rt > 0 THEN p.position END), coalesce(max(CASE WHEN p.turn_rt > 0 THEN p.position END), -1),
			count(*) FILTER (WHERE p.turn_rt = 0 AND (p.left_at > 0 OR p.barred <> '' OR p.replaced = 1)),
			coalesce(min(p.seq), 1), coalesce(max(p.seq), 0), count(*) FILTER (WHERE p.replaced = 0),
			(SELECT count(DISTINCT subject) FROM waiting_places WHERE room = $1 AND replaced = 0)
		FROM waiting_rooms r JOIN waiting_tails t ON t.room = r.room LEFT JOIN waiting_places p ON p.room = r.room
		WHERE r.room = $1 GROUP BY r.lanes, t.lanes, t.joined, p.lane`, func(rows sqldb.Row) error {
		var f laneFacts
		var lanes, tails, lane string
		var lowest, highest, holders int64
		if err := rows.Scan(&lanes, &tails, &r.joined, &lane, &f.places, &f.first, &f.last, &f.turns, &f.positions, &f.highest, &f.skipped,
			&lowest, &highest, &holders, &subjects); err != nil {
			return err
		}
		if len(found) == 0 {
			if err := errors.Join(r.readLanes(lanes), r.readTails(tails)); err != nil {
				return err
			}
			first = lowest
		}
		found[lane] = f
		places, first, last, current = places+f.places, min(first, lowest), max(last, highest), current+holders
		return nil
	}, name); err != nil {
		return nil, err
	}
	dense := true
	var checks []Check
	for i := range r.lanes {
		l := &r.lanes[i]
		f, ok := found[l.Name]
		if !ok {
			f.highest = -1
		}
		of := ""
		if l.Name != "" {
			of = " of lane " + l.Name
		}
		dense = dense && (f.places == 0 || f.first == 1) && f.last == f.places && f.last == l.tail.Joined
		checks = append(checks,
			check("cursor"+of, l.Served <= f.last && f.highest < l.Served,
				"%d of %d positions have had their turn, the last turn is at position %d", l.Served, f.last, f.highest+1),
			check("turns"+of, f.positions == f.turns && f.turns <= l.Served && l.Served <= f.turns+f.skipped,
				"%d turns at %d positions, %d positions were skipped, %d places left before their turn",
				f.turns, f.positions, l.Served-f.turns, f.skipped))
	}
	return append([]Check{
		check("numbers", first == 1 && last == places && last == r.joined && dense, "%d places have the numbers %d to %d, and %d joined", places, first, last, r.joined),
		check("one place a visitor", subjects == current, "%d visitors have %d current places", subjects, current),
	}, checks...), nil
}

// verifyDraw computes the root of a draw again. What it reads does not change any more.
func (s *Service) verifyDraw(ctx context.Context, r *room) (Check, error) {
	t := draw.NewTree()
	if err := s.store.listed(ctx, s.store.db.Conn, r.def.Room, 0, r.nDrawn, func(p *place) error { return t.Add(p.entry().Leaf(r.def.Room)) }); err != nil {
		return Check{}, err
	}
	root, err := t.Root()
	if err == nil && r.def.Beacon != "" {
		if err := r.beacon.Verify(r.def.StartsAt); err != nil {
			return check("draw", false, "%v", err), nil
		}
	}
	return check("draw", hex.EncodeToString(root) == r.root && t.Size() == r.nDrawn, "%d places give the root %x, published is %s", t.Size(), root, r.root), err
}

// verifyPromises compares the turns and passes that can still be used with the capacity and the stock, which the lock keeps as they are.
func (s *Service) verifyPromises(ctx context.Context, name string) (checks []Check, err error) {
	_, err = s.store.change(ctx, name, func(tx sqldb.Conn, r *room) error {
		checks = nil
		f, err := s.count(ctx, tx, r)
		if err != nil {
			return err
		}
		if r.def.Capacity > 0 {
			checks = append(checks, check("capacity", f.active <= int64(r.def.Capacity), "%d are admitted, at most %d may be", f.active, r.def.Capacity))
		}
		if r.def.Sale == "" || r.def.Bound != BoundStrict || r.stalled || r.ended == PhaseClosed {
			return nil
		}
		if _, err := s.settle(ctx, tx, r); err != nil {
			return err
		}
		if f, err = s.count(ctx, tx, r); err != nil {
			return err
		}
		checks = append(checks, check("stock", f.openUnits+f.activeUnits <= r.free, "turns and passes for %d units, and %d are free", f.openUnits+f.activeUnits, r.free))
		return nil
	})
	return checks, err
}
