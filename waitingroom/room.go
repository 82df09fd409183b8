package waitingroom

import (
	"time"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/names"
	"github.com/tidegate/tidegate/waitingroom/draw"
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
	Room         string
	Sale, Item   string // empty: the room stands alone
	Mode         Mode
	GatherAt     time.Time     // from which on people may join
	StartsAt     time.Time     // from which on turns are given
	Capacity     int           // people admitted at a time, up to 1,000,000; 0: not bounded
	RatePerMin   int           // turns claimed in a minute, up to MaxRate; 0: not bounded, and without sale and capacity turns are given by Advance only
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
	begun := now >= r.StartsAt.UnixMilli() || r.listed() || r.served() > 0
	switch {
	case r.ended != "":
		return failure.New(ErrConflict, "room %s has ended, and no other room can have its name", r.Room)
	case r.Sale != next.Sale || r.Item != next.Item:
		return failure.New(ErrConflict, "room %s belongs to another sale or item for good", r.Room)
	case r.joined > 0 && (r.Mode != next.Mode || r.RequiresUser != next.RequiresUser):
		return failure.New(ErrConflict, "people have joined room %s, and its mode and whether it needs a user stay as they are", r.Room)
	case (r.joined > 0 || begun) && r.Beacon != next.Beacon:
		return failure.New(ErrConflict, "people have joined room %s, or it has begun, and its beacon stays as it is", r.Room)
	case r.joined > 0 && !r.sameLanes(next):
		return failure.New(ErrConflict, "people have joined room %s, and its lanes stay as they are, except for their shares", r.Room)
	case r.served() > 0 && r.Bound != next.Bound:
		return failure.New(ErrConflict, "turns were given in room %s, and what they promise stays as it is", r.Room)
	case r.joined > 0 && !r.StartsAt.Equal(next.StartsAt) && next.StartsAt.UnixMilli() < now:
		return failure.New(ErrConflict, "people have joined room %s, and starts_at must not be in the past", r.Room)
	case begun && (r.Mode != next.Mode || !r.StartsAt.Equal(next.StartsAt)):
		return failure.New(ErrConflict, "room %s has begun, and its mode and start stay as they are", r.Room)
	}
	return nil
}

// room is a room as the database holds it, with the end of its queue. Times are Unix ms of the database's clock.
type room struct {
	Definition

	message   string
	ended     Phase // PhaseExhausted or PhaseClosed; empty: neither
	endedAt   int64
	held      bool
	stalled   bool // the stock could not be read
	sale      SaleState
	stoppedAt int64
	stoppedMS int64
	tickedAt  int64
	credit    float64
	extra     int64
	brake     float64 // which part of its turns the room gives, because commits are slow; 1: all
	lagMS     int64   // how long accepted orders wait for their commit
	free      int64
	promised  int64  // units of turns and passes that may still be used
	secret    string // hexadecimal
	salt      string
	commit    string
	root      string
	nDrawn    int64
	drawnAt   int64
	beacon    draw.Beacon

	joined, gathered int64
	lanes            []lane // at least one; their numbers add up to those of the room
	mostQuantity     int64  // of a place
	now              int64  // when it was read
	sinceTick        int64  // ms since the last tick, also while room time stands still; set by lock
}

func (r *room) drawn() bool { return r.drawnAt > 0 }

// ordered reports whether places have positions.
func (r *room) ordered() bool { return r.Mode == ModeFIFO || r.drawn() }

// listed reports whether the list of those who take part in the draw is complete.
func (r *room) listed() bool { return r.root != "" }

// roomTime returns the time of the room's own clock. It does not go on for longer than staleAfter without a tick, because no visitor could claim then.
func (r *room) roomTime(now int64) int64 {
	switch {
	case r.stoppedAt > 0:
		now = r.stoppedAt
	case r.tickedAt > 0:
		now = min(max(now, r.tickedAt), r.tickedAt+staleAfter.Milliseconds())
	}
	return now - r.stoppedMS
}

// skipOutage leaves out of room time what has passed since the last tick and a little more, and what the database's clock was set back. While
// room time is stopped, stopOrStartClock does that when it starts again: tickedAt must stay, because only a tick can end a stall, and it waits until the
// last one is old.
func (r *room) skipOutage() {
	if r.tickedAt == 0 || r.stoppedAt > 0 {
		return
	}
	if lost := r.now - staleAfter.Milliseconds() - r.tickedAt; lost > 0 {
		r.stoppedMS += lost
		r.tickedAt += lost
	} else if back := r.tickedAt - r.now; back > 0 {
		r.stoppedMS -= back
		r.tickedAt = r.now
	}
}

// waitsForSale reports whether the room stands still because its sale takes no orders. Before its own start that has no effect.
func (r *room) waitsForSale(now int64) bool {
	return (r.sale == SalePaused || r.sale == SaleNotStarted) && r.ended == "" && now >= r.StartsAt.UnixMilli()
}

// close ends the room; passes go on.
func (r *room) close() {
	r.ended, r.endedAt, r.held, r.stalled = PhaseClosed, r.now, false, false
}

// stopOrStartClock stops or starts room time, after held, stalled or sale changed.
func (r *room) stopOrStartClock(now int64) {
	switch stop := r.held || r.stalled || r.waitsForSale(now); {
	case stop && r.stoppedAt == 0:
		r.stoppedAt = now
	case !stop && r.stoppedAt > 0:
		r.stoppedMS += now - r.stoppedAt
		r.stoppedAt, r.tickedAt = 0, now
	}
}

// phase returns the phase at now.
func (r *room) phase(now int64) Phase {
	switch {
	case r.ended != "":
		return r.ended
	case r.held: // first, because only an operator ends it
		return PhaseHeld
	case r.stalled:
		return PhaseRecovering
	case r.waitsForSale(now):
		return PhaseHeld
	case now < r.GatherAt.UnixMilli():
		return PhaseScheduled
	case now < r.StartsAt.UnixMilli(), r.Mode == ModeDraw && !r.drawn():
		return PhaseGathering
	}
	return PhaseServing
}
