package waitingroom

import (
	"time"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/names"
	"github.com/tidegate/tidegate/waitingroom/draw"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// Mode is the order of admission.
type Mode string

// The modes. In ModeDraw the order of those who joined before the start is drawn; later ones follow in the order of their joining, as
// everybody does in ModeFIFO.
const (
	ModeDraw Mode = "draw"
	ModeFIFO Mode = "fifo"
)

// Bound is what a turn promises in a room that belongs to a sale.
type Bound string

// The bounds. With BoundStrict a turn that is claimed in time gets a unit. With BoundExpected more turns are given, because some of them
// are expected not to be used, and a turn promises nothing.
const (
	BoundStrict   Bound = "strict"
	BoundExpected Bound = "expected"
)

// Phase is the state of a room.
type Phase string

// The phases. In PhaseHeld an operator holds the room, or its sale takes no orders; in PhaseRecovering the stock or the database cannot be
// read: nothing moves in either. PhaseExhausted and PhaseClosed are final; a room is closed by an operator, or with its sale.
const (
	PhaseScheduled  Phase = "scheduled"
	PhaseGathering  Phase = "gathering"
	PhaseServing    Phase = "serving"
	PhaseHeld       Phase = "held"
	PhaseRecovering Phase = "recovering"
	PhaseExhausted  Phase = "exhausted"
	PhaseClosed     Phase = "closed"
)

// Bounds of a definition.
const (
	maxCapacity         = 1_000_000
	MaxRate             = 1_000_000 // turns a minute
	maxQuantity         = 1_000
	minWindow           = time.Second
	maxClaimWindow      = 24 * time.Hour
	MaxPassLifetime     = 24 * time.Hour
	DefaultClaimWindow  = 90 * time.Second
	DefaultPassLifetime = 10 * time.Minute
	maxMessage          = 500 // characters
	maxUser             = 255 // characters, as of orders
)

// Definition is what an operator decides.
type Definition struct {
	Room       string
	Sale, Item string // empty: the room stands alone
	Mode       Mode
	GatherAt   time.Time // from which on people may join
	StartsAt   time.Time // from which on turns are given
	Capacity   int       // people admitted at a time, up to 1,000,000; 0: not bounded
	// turns claimed in a minute, up to MaxRate; 0: not bounded, and without sale and capacity turns are given by Advance only
	RatePerMin   int
	ClaimWindow  time.Duration // how long a turn can be claimed, 1 s to 24 h
	PassLifetime time.Duration // how long an admitted visitor may order, 1 s to MaxPassLifetime
	Bound        Bound
	RequiresUser bool
	Captcha      bool   // joining needs a solved challenge
	Beacon       string // draw.Drand, or empty: the draw depends on no public random value
	Lanes        []Lane // 2 to 8, or none: one queue
	Page         Page
}

// MayRejoin reports whether the visitor of a place in a state may join again, and get a new place at the end.
func (d *Definition) MayRejoin(s State) bool {
	return s == StateLapsed || s == StateLeft || s == StateDone && d.Sale == ""
}

// ValidName reports whether a room, or a lane, can have a name.
func ValidName(name string) bool { return names.RoomOrLane(name) }

// validate returns an ErrInvalid for a definition that cannot be stored.
func (d *Definition) validate() error {
	wrong := func(field, format string, args ...any) error {
		return invalid(field, "be "+format, args...)
	}
	switch {
	case !ValidName(d.Room):
		return wrong("room", names.Length+" of a-z, 0-9 and -, got %.80q", d.Room)
	case (d.Sale == "") != (d.Item == ""):
		return wrong("sale and item", "given together, or neither")
	case d.Mode != ModeDraw && d.Mode != ModeFIFO:
		return wrong("mode", "draw or fifo, got %.40q", d.Mode)
	case d.Bound != BoundStrict && d.Bound != BoundExpected:
		return wrong("bound", "strict or expected, got %.40q", d.Bound)
	case d.StartsAt.IsZero() || d.GatherAt.After(d.StartsAt):
		return wrong("gather_at", "at or before starts_at")
	case d.Mode == ModeDraw && !d.GatherAt.Before(d.StartsAt):
		return wrong("gather_at", "before starts_at, for a draw is among those who joined before the start")
	case d.Capacity < 0 || d.Capacity > maxCapacity:
		return wrong("capacity", "0 to %d, got %d", maxCapacity, d.Capacity)
	case d.RatePerMin < 0 || d.RatePerMin > MaxRate:
		return wrong("rate_per_min", "0 to %d, got %d", MaxRate, d.RatePerMin)
	case d.ClaimWindow < minWindow || d.ClaimWindow > maxClaimWindow:
		return wrong("claim_ms", "%d to %d, got %d", minWindow.Milliseconds(), maxClaimWindow.Milliseconds(), d.ClaimWindow.Milliseconds())
	case d.PassLifetime < minWindow || d.PassLifetime > MaxPassLifetime:
		return wrong("pass_ms", "%d to %d, got %d", minWindow.Milliseconds(), MaxPassLifetime.Milliseconds(), d.PassLifetime.Milliseconds())
	case d.Beacon != "" && d.Beacon != draw.Drand:
		return wrong("beacon", "drand or absent, got %.40q", d.Beacon)
	case d.Beacon != "" && d.Mode != ModeDraw:
		return wrong("beacon", "absent in mode %s, which draws nothing", d.Mode)
	case d.Sale != "" && !d.RequiresUser:
		return wrong("requires_user", "true in a room of a sale, whose orders are a user's")
	}
	if right := checkLanes(d.Lanes); right != "" {
		return wrong("lanes", "%s", right)
	}
	return d.Page.validate()
}

// checkChange returns an ErrConflict if a stored room cannot become next at now.
func (r *room) checkChange(next *Definition, now int64) error {
	begun := now >= r.def.StartsAt.UnixMilli() || r.listed() || r.served() > 0
	switch {
	case r.ended() != "":
		return failure.New(ErrConflict, "room %s has ended, and no other room can have its name", r.def.Room)
	case r.def.Sale != next.Sale || r.def.Item != next.Item:
		return failure.New(ErrConflict, "room %s belongs to another sale or item for good", r.def.Room)
	case r.saved.Joined > 0 && (r.def.Mode != next.Mode || r.def.RequiresUser != next.RequiresUser):
		return failure.New(ErrConflict, "people have joined room %s, and its mode and whether it needs a user stay as they are", r.def.Room)
	case (r.saved.Joined > 0 || begun) && r.def.Beacon != next.Beacon:
		return failure.New(ErrConflict, "people have joined room %s, or it has begun, and its beacon stays as it is", r.def.Room)
	case r.saved.Joined > 0 && !r.def.sameLanes(next):
		return failure.New(ErrConflict, "people have joined room %s, and its lanes stay as they are, except for their shares", r.def.Room)
	case r.served() > 0 && r.def.Bound != next.Bound:
		return failure.New(ErrConflict, "turns were given in room %s, and what they promise stays as it is", r.def.Room)
	case r.saved.Joined > 0 && !r.def.StartsAt.Equal(next.StartsAt) && next.StartsAt.UnixMilli() < now:
		return failure.New(ErrConflict, "people have joined room %s, and starts_at must not be in the past", r.def.Room)
	case begun && (r.def.Mode != next.Mode || !r.def.StartsAt.Equal(next.StartsAt)):
		return failure.New(ErrConflict, "room %s has begun, and its mode and start stay as they are", r.def.Room)
	}
	return nil
}

// room is a room as the database holds it.
type room struct {
	def       Definition
	saved     store.Saved
	sinceTick int64 // ms since the last tick, also while room time stands still; set by lock
}

// ended returns PhaseExhausted or PhaseClosed, or "" if the room goes on.
func (r *room) ended() Phase { return Phase(r.saved.Ended) }

func (r *room) drawn() bool { return r.saved.DrawnAt > 0 }

// ordered reports whether places have positions.
func (r *room) ordered() bool { return r.def.Mode == ModeFIFO || r.drawn() }

// listed reports whether the list of those who take part in the draw is complete.
func (r *room) listed() bool { return r.saved.Root != "" }

// roomTime returns the time of the room's own clock. It does not go on for longer than staleAfter without a tick, because no
// visitor could claim then.
func (r *room) roomTime(now int64) int64 {
	switch {
	case r.saved.StoppedAt > 0:
		now = r.saved.StoppedAt
	case r.saved.TickedAt > 0:
		now = min(max(now, r.saved.TickedAt), r.saved.TickedAt+staleAfter.Milliseconds())
	}
	return now - r.saved.StoppedMS
}

// skipOutage leaves out of room time what has passed since the last tick and a little more, and what the database's clock was set
// back. While room time is stopped, stopOrStartClock does that when it starts again: tickedAt must stay, because only a tick can
// end a stall, and it waits until the last one is old.
func (r *room) skipOutage() {
	if r.saved.TickedAt == 0 || r.saved.StoppedAt > 0 {
		return
	}
	if lost := r.saved.Now - staleAfter.Milliseconds() - r.saved.TickedAt; lost > 0 {
		r.saved.StoppedMS += lost
		r.saved.TickedAt += lost
	} else if back := r.saved.TickedAt - r.saved.Now; back > 0 {
		r.saved.StoppedMS -= back
		r.saved.TickedAt = r.saved.Now
	}
}

// waitsForSale reports whether the room stands still because its sale takes no orders. Before its own start that has no effect.
func (r *room) waitsForSale(now int64) bool {
	return (r.saved.Sale == SalePaused || r.saved.Sale == SaleNotStarted) && r.ended() == "" && now >= r.def.StartsAt.UnixMilli()
}

// close ends the room; passes go on.
func (r *room) close() {
	r.saved.Ended, r.saved.EndedAt, r.saved.Held, r.saved.Stalled = string(PhaseClosed), r.saved.Now, false, false
}

// stopOrStartClock stops or starts room time, after held, stalled or sale changed.
func (r *room) stopOrStartClock(now int64) {
	switch stop := r.saved.Held || r.saved.Stalled || r.waitsForSale(now); {
	case stop && r.saved.StoppedAt == 0:
		r.saved.StoppedAt = now
	case !stop && r.saved.StoppedAt > 0:
		r.saved.StoppedMS += now - r.saved.StoppedAt
		r.saved.StoppedAt, r.saved.TickedAt = 0, now
	}
}

// phase returns the phase at now.
func (r *room) phase(now int64) Phase {
	switch {
	case r.ended() != "":
		return r.ended()
	case r.saved.Held: // first, because only an operator ends it
		return PhaseHeld
	case r.saved.Stalled:
		return PhaseRecovering
	case r.waitsForSale(now):
		return PhaseHeld
	case now < r.def.GatherAt.UnixMilli():
		return PhaseScheduled
	case now < r.def.StartsAt.UnixMilli(), r.def.Mode == ModeDraw && !r.drawn():
		return PhaseGathering
	}
	return PhaseServing
}
