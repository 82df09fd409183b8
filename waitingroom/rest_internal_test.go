package waitingroom

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// When nothing can move in a room.
func TestQuiet(t *testing.T) {
	const now = 1_000_000_000
	starts := func(in time.Duration) time.Time { return time.UnixMilli(now).Add(in) }
	for what, tt := range map[string]struct {
		change func(r *room)
		want   bool
	}{
		"no visitor was there":     {func(*room) {}, true},
		"the stock was not read":   {func(r *room) { r.saved.TickedAt = 0 }, false},
		"somebody waits":           {func(r *room) { r.saved.Lanes[0].Tail.Joined = 1 }, false},
		"all had their turn":       {func(r *room) { r.saved.Lanes[0] = store.Lane{Served: 3, Tail: store.Tail{Joined: 3}} }, true},
		"units are promised":       {func(r *room) { r.saved.Promised = 1 }, false},
		"a turn is open":           {func(r *room) { r.saved.LastActive = now + 1 }, false},
		"a turn is just over":      {func(r *room) { r.saved.LastActive = now - 64_000 }, false},
		"a turn is long over":      {func(r *room) { r.saved.LastActive = now - 66_000 }, true},
		"just over, and held":      {func(r *room) { r.saved.LastActive, r.saved.StoppedAt = now-10_000, now-1_000 }, false},
		"just over, and long held": {func(r *room) { r.saved.LastActive, r.saved.StoppedAt = now-80_000, now-70_000 }, true},
		"no ticks for an hour":     {func(r *room) { r.saved.LastActive, r.saved.TickedAt = now-3_610_000, now-3_600_000 }, false},
		"the brake is on":          {func(r *room) { r.saved.Brake = 0.98 }, false},
		"commits are slow":         {func(r *room) { r.saved.LagMS = 2001 }, false},
		"it has ended":             {func(r *room) { r.saved.Ended = string(PhaseClosed) }, false},
		"the draw is to come":      {func(r *room) { r.def.Mode, r.def.StartsAt = ModeDraw, starts(time.Minute) }, true},
		"the draw is due":          {func(r *room) { r.def.Mode, r.def.StartsAt = ModeDraw, starts(0) }, false},
		"it was drawn":             {func(r *room) { r.def.Mode, r.def.StartsAt, r.saved.DrawnAt = ModeDraw, starts(0), now }, true},
		"held, without a visitor":  {func(r *room) { r.saved.Held, r.saved.StoppedAt = true, now }, true},
	} {
		v := &view{room: room{saved: store.Saved{TickedAt: now, Brake: 1, Lanes: []store.Lane{{}}}}, skipped: []map[int64]int64{{}}}
		if tt.change(&v.room); v.quiet(now) != tt.want {
			t.Errorf("%s: %t, want %t", what, !tt.want, tt.want)
		}
	}
}

// When the rooms are read again: the moments of rooms at rest are kept.
func TestNextRound(t *testing.T) {
	local := time.Now()
	now := local.UnixMilli()
	at := func(in time.Duration) time.Time { return time.UnixMilli(now).Add(in) }
	for what, tt := range map[string]struct {
		gathers, starts time.Duration
		change          func(r *room)
		asked           time.Duration // before; 0: never
		want            time.Duration
	}{
		"at rest":                  {-time.Hour, -time.Hour, nil, 0, restRefresh},
		"somebody waits":           {-time.Hour, -time.Hour, func(r *room) { r.saved.Lanes[0].Tail.Joined = 1 }, 0, tickEvery},
		"somebody has just asked":  {-time.Hour, -time.Hour, nil, time.Second, tickEvery},
		"somebody asked before":    {-time.Hour, -time.Hour, nil, 31 * time.Second, restRefresh},
		"gathers in an hour":       {time.Hour, 2 * time.Hour, nil, 0, idleRefresh},
		"gathers within a minute":  {time.Minute, 2 * time.Hour, nil, 0, restRefresh},
		"gathers at once":          {300 * time.Millisecond, 2 * time.Hour, nil, 0, 300 * time.Millisecond},
		"starts in a minute":       {-time.Hour, time.Minute, nil, 0, restRefresh},
		"starts at once":           {-time.Hour, 30 * time.Millisecond, nil, 0, 30 * time.Millisecond},
		"closed, somebody waits":   {-time.Hour, -time.Hour, func(r *room) { r.saved.Ended, r.saved.Lanes[0].Tail.Joined = "closed", 1 }, 0, idleRefresh},
		"closed, a pass is open":   {-time.Hour, -time.Hour, func(r *room) { r.saved.Ended, r.saved.Promised = "closed", 1 }, 0, tickEvery},
		"before it gathers, asked": {time.Minute, time.Hour, nil, time.Second, restRefresh},
	} {
		s := New(nil, Options{})
		s.now = func() time.Time { return local }
		v := &view{usage: &usage{}, skipped: []map[int64]int64{{}}}
		v.room = room{
			def:   Definition{Mode: ModeFIFO, GatherAt: at(tt.gathers), StartsAt: at(tt.starts)},
			saved: store.Saved{TickedAt: now, Brake: 1, Lanes: []store.Lane{{}}},
		}
		if tt.change != nil {
			tt.change(&v.room)
		}
		if tt.asked > 0 {
			v.usage.asked.Store(local.Add(-tt.asked).UnixNano())
		}
		v.asOf.Store(&moment{now, local})
		s.views.Store(&map[string]*view{"hall": v})
		if got := s.nextRound(); got != tt.want {
			t.Errorf("%s: %v, want %v", what, got, tt.want)
		}
	}
}
