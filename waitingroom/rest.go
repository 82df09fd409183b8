package waitingroom

import (
	"context"
	"hash/fnv"
	"sync/atomic"
	"time"
)

// A room rests while nothing can move in it: no visitor waits, no turn or pass is open or has just ended, the draw is not due, and no visitor
// asks this process for it. It gets no ticks then, and costs its part of a statement that compares the versions of all rooms. Its stock is
// read rarely, and without the database. A request for the room, or a change of it, ends the rest.

const (
	lookEvery  = 10 * time.Second // how often the stock of a room that rests is read: its state is shown so late
	lookWithin = tickEvery / 2    // of a round, in which such readings begin, so that they delay no tick
	usedFor    = 30 * time.Second // longer than the pauses of clients that poll or stream
	usedAgain  = time.Second      // more frequent requests are not noted
	// Until then what became of turns and passes counts in the next decisions, or may still be noticed.
	quietAfter = claimDelay + measured
)

// usage is when this process was last concerned with a room.
type usage struct {
	asked  atomic.Int64 // when a visitor last asked for the room, in Unix ns
	ticked time.Time    // when this process last tried to tick it; used by Run only, like looked
	looked time.Time    // when this process last read its stock while it rested
}

// usageOf returns that of an older view, or a new one. The looks at rooms that are read at the same time are spread over lookEvery.
func usageOf(name string, old *view, at time.Time) *usage {
	if old != nil {
		return old.usage
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return &usage{looked: at.Add(-time.Duration(h.Sum32()) % lookEvery)}
}

// use notes that a visitor asks for a room, and wakes Run if that ends its rest.
func (s *Service) use(v *view) {
	local := s.now()
	before := v.usage.asked.Load()
	if since := local.UnixNano() - before; since >= 0 && since < int64(usedAgain) {
		return
	}
	rested := s.rests(v, local)
	if v.usage.asked.CompareAndSwap(before, local.UnixNano()) && rested {
		s.Wake()
	}
}

// used reports whether a visitor has lately asked this process for the room.
func (u *usage) used(local time.Time) bool {
	since := local.UnixNano() - u.asked.Load()
	return since >= 0 && since < int64(usedFor)
}

// rests reports whether a room that runs needs no ticks of this process now.
func (s *Service) rests(v *view, local time.Time) bool {
	return !v.usage.used(local) && v.quiet(v.clockNow(local))
}

// quiet reports whether nothing can move in a room at now, unless somebody joins, or its stock or definition changes.
func (v *view) quiet(now int64) bool {
	r := &v.room
	switch {
	case r.ended() != "" || r.saved.TickedAt == 0: // passes may still be used; the stock has not been read yet
		return false
	case r.saved.Promised > 0 || r.saved.Brake < 1 || r.saved.LagMS > commitWithin.Milliseconds():
		return false
	case r.def.Mode == ModeDraw && !r.drawn() && now >= r.def.StartsAt.UnixMilli():
		return false
	}
	for i := range r.saved.Lanes {
		if v.waiting(i) > 0 {
			return false
		}
	}
	passed := r.roomTime(now) - r.saved.LastActive
	if r.saved.StoppedAt > 0 { // room time stands still, and with it what the decisions depend on
		passed += now - r.saved.StoppedAt
	}
	return r.saved.LastActive == 0 || passed > quietAfter.Milliseconds()
}

// needsTicks reports whether a room gets ticks now.
func (s *Service) needsTicks(v *view, local time.Time) bool {
	return v.room.runs() && v.clockNow(local) >= v.room.def.GatherAt.UnixMilli() && !s.rests(v, local)
}

// nextRound returns when the rooms have to be read again: soon if one of them needs ticks, and otherwise before a copy is stale, but at
// the moment when the next one gathers or starts.
func (s *Service) nextRound() time.Duration {
	next, local := idleRefresh, s.now()
	for _, v := range *s.views.Load() {
		if !v.room.runs() {
			continue
		}
		if s.needsTicks(v, local) {
			return tickEvery
		}
		now := v.clockNow(local)
		if now >= v.room.def.GatherAt.Add(-time.Minute).UnixMilli() {
			next = min(next, restRefresh)
		}
		for _, at := range []time.Time{v.room.def.GatherAt, v.room.def.StartsAt} {
			if left := at.UnixMilli() - now; left > 0 && left < next.Milliseconds() {
				next = time.Duration(left) * time.Millisecond
			}
		}
	}
	return max(next, time.Millisecond)
}

// looks reports whether the stock of a room that rests is to be read now.
func (s *Service) looks(v *view, local time.Time) bool {
	return v.room.def.Sale != "" && s.opts.Stock != nil && v.room.runs() && local.Sub(v.usage.looked) >= lookEvery &&
		v.clockNow(local) >= v.room.def.GatherAt.UnixMilli()
}

// look reads the stock of a room that rests, and ticks the room if it shows something else than the room does, or may end it.
func (s *Service) look(ctx context.Context, v *view) (changed bool, err error) {
	r := &v.room
	supply, err := s.opts.Stock.Look(ctx, r.def.Sale, r.def.Item, r.def.Room, nil, nil)
	switch saved := &r.saved; {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil && saved.Stalled:
		return false, nil
	case err == nil && !saved.Stalled && int64(supply.Free) == saved.Free && supply.Sale == saved.Sale &&
		(supply.Lag > 0) == (saved.LagMS > 0) && supply.Lag <= commitWithin && (!supply.Final || supply.Free > 0):
		return false, nil
	}
	return s.tick(ctx, r.def.Room)
}
