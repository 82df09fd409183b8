package waitingroom

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/drand"
	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/waitingroom/draw"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

const (
	beaconEvery = time.Second
	beaconLate  = 5 * time.Second
)

// Beacon is the round of drand that a draw depends on.
type Beacon struct {
	Network, Chain string
	Round          int64     // changes with the start, and once if the list is complete only when the round is near
	At             time.Time // when it is signed
	Signature      string    // hexadecimal; empty until the room has it
}

func (r *room) publicBeacon() *Beacon {
	if r.def.Beacon == "" {
		return nil
	}
	round := r.saved.Beacon.Round
	if !r.listed() {
		round = draw.RoundFor(r.def.StartsAt, r.def.StartsAt)
	}
	return &Beacon{
		Network: drand.Quicknet.Name, Chain: drand.Quicknet.Chain, Round: round, At: drand.Quicknet.TimeOf(round),
		Signature: r.saved.Beacon.Signature,
	}
}

// SetBeacon gives a room the signature, in hexadecimal, of the round that its draw waits for. It returns an ErrInvalid if it is
// not that of the round, and an ErrConflict if the room waits for another round, or for none. It is idempotent.
func (s *Service) SetBeacon(ctx context.Context, name string, round int64, signature string, by Cause) (Status, error) {
	if drand.Quicknet.Verify(round, signature) != nil {
		return Status{}, invalid("signature", "be that of round %d of drand's network %s, in hexadecimal, got %.100q", round,
			drand.Quicknet.Name, signature)
	}
	return s.alter(ctx, name, by, "beacon", signature, "has its beacon", func(r *room) error { return r.setBeacon(round, signature) })
}

func (r *room) setBeacon(round int64, signature string) error {
	switch {
	case r.def.Beacon == "":
		return failure.New(ErrConflict, "room %s has no beacon", r.def.Room)
	case !r.listed():
		return failure.New(ErrConflict, "room %s waits for a round only after its start, at %v", r.def.Room, r.def.StartsAt)
	case r.ended() != "" && r.saved.Beacon.Signature == "":
		return r.checkNotEnded()
	case round != r.saved.Beacon.Round:
		return failure.New(ErrConflict, "the draw of room %s needs round %d, not %d", r.def.Room, r.saved.Beacon.Round, round)
	}
	r.saved.Beacon.Signature = strings.ToLower(signature)
	return nil
}

// pollUntilDrawn returns when to read a place again that is to be drawn.
func (r *room) pollUntilDrawn(now int64) time.Duration {
	until := r.def.StartsAt
	if r.def.Beacon != "" && r.listed() {
		if until = drand.Quicknet.TimeOf(r.saved.Beacon.Round); now-until.UnixMilli() > beaconLate.Milliseconds() {
			return jitter(PollFar) // it is not known when the round will be had
		}
	}
	return pollBefore(until.Sub(time.UnixMilli(now)))
}

// overdue returns how long ago the round was signed that the draw still waits for; negative: it will be, or the draw waits for none.
func (r *room) overdue(now int64) time.Duration {
	if r.def.Beacon == "" || !r.listed() || r.saved.Beacon.Signature != "" || r.ended() != "" {
		return -1
	}
	return time.UnixMilli(now).Sub(drand.Quicknet.TimeOf(r.saved.Beacon.Round))
}

// fetchBeacons gets the signatures that rooms wait for, each round once.
func (s *Service) fetchBeacons(ctx context.Context) {
	type answer struct {
		signature string
		err       error
	}
	rounds := make(map[int64]answer)
	for name, v := range *s.views.Load() {
		overdue, round := v.room.overdue(v.clockNow(s.now())), v.room.saved.Beacon.Round
		if overdue < 0 {
			continue
		}
		got, asked := rounds[round]
		if !asked {
			if got.signature, got.err = s.opts.Beacon(ctx, round); got.err == nil {
				got.err = drand.Quicknet.Verify(round, got.signature)
			}
			rounds[round] = got
		}
		signature, err := got.signature, got.err
		if err == nil {
			_, err = s.locked(ctx, name, func(_ store.Tx, r *room) error { return r.setBeacon(round, signature) })
		}
		if err != nil && ctx.Err() == nil && overdue > beaconLate { // relays have a round some moments after it is signed
			s.opts.Logger.WarnContext(ctx, "a waiting room waits for its beacon, which cannot be fetched: try again, or give it with tidegate "+
				"rooms beacon",
				slog.String("room", name), slog.Int64("round", round), slog.Any("error", err))
		}
	}
}
