package waitingroom

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/drand"
	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/waitingroom/draw"
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
	if r.Beacon == "" {
		return nil
	}
	round := r.beacon.Round
	if !r.listed() {
		round = draw.RoundFor(r.StartsAt, r.StartsAt)
	}
	return &Beacon{Network: drand.Quicknet.Name, Chain: drand.Quicknet.Chain, Round: round, At: drand.Quicknet.TimeOf(round), Signature: r.beacon.Signature}
}

// SetBeacon gives a room the signature, in hexadecimal, of the round that its draw waits for. It returns an ErrInvalid if it is not that of the round, and
// an ErrConflict if the room waits for another round, or for none. It is idempotent.
func (s *Service) SetBeacon(ctx context.Context, name string, round int64, signature string, by Cause) (Status, error) {
	if drand.Quicknet.Verify(round, signature) != nil {
		return Status{}, invalid("signature", "be that of round %d of drand's network %s, in hexadecimal, got %.100q", round, drand.Quicknet.Name, signature)
	}
	return s.alter(ctx, name, by, "beacon", signature, "has its beacon", func(r *room) error { return r.setBeacon(round, signature) })
}

func (r *room) setBeacon(round int64, signature string) error {
	switch {
	case r.Beacon == "":
		return failure.New(ErrConflict, "room %s has no beacon", r.Room)
	case !r.listed():
		return failure.New(ErrConflict, "room %s waits for a round only after its start, at %v", r.Room, r.StartsAt)
	case r.ended != "" && r.beacon.Signature == "":
		return r.checkNotEnded()
	case round != r.beacon.Round:
		return failure.New(ErrConflict, "the draw of room %s needs round %d, not %d", r.Room, r.beacon.Round, round)
	}
	r.beacon.Signature = strings.ToLower(signature)
	return nil
}

// pollUntilDrawn returns when to read a place again that is to be drawn.
func (v *view) pollUntilDrawn(now int64) time.Duration {
	until := v.StartsAt
	if v.Beacon != "" && v.listed() {
		if until = drand.Quicknet.TimeOf(v.beacon.Round); now-until.UnixMilli() > beaconLate.Milliseconds() {
			return jitter(PollFar) // it is not known when the round will be had
		}
	}
	return pollBefore(until.Sub(time.UnixMilli(now)))
}

// overdue returns how long ago the round was signed that the draw still waits for; negative: it will be, or the draw waits for none.
func (v *view) overdue(local time.Time) time.Duration {
	if v.Beacon == "" || !v.listed() || v.beacon.Signature != "" || v.ended != "" {
		return -1
	}
	return time.UnixMilli(v.clockNow(local)).Sub(drand.Quicknet.TimeOf(v.beacon.Round))
}

// fetchBeacons gets the signatures that rooms wait for, each round once.
func (s *Service) fetchBeacons(ctx context.Context) {
	type answer struct {
		signature string
		err       error
	}
	rounds := make(map[int64]answer)
	for name, v := range *s.views.Load() {
		overdue := v.overdue(s.now())
		if overdue < 0 {
			continue
		}
		got, asked := rounds[v.beacon.Round]
		if !asked {
			if got.signature, got.err = s.opts.Beacon(ctx, v.beacon.Round); got.err == nil {
				got.err = drand.Quicknet.Verify(v.beacon.Round, got.signature)
			}
			rounds[v.beacon.Round] = got
		}
		signature, err := got.signature, got.err
		if err == nil {
			_, err = s.store.change(ctx, name, func(_ sqldb.Conn, r *room) error { return r.setBeacon(v.beacon.Round, signature) })
		}
		if err != nil && ctx.Err() == nil && overdue > beaconLate { // relays have a round some moments after it is signed
			s.opts.Logger.WarnContext(ctx, "a waiting room waits for its beacon, which cannot be fetched: try again, or give it with tidegate rooms beacon",
				slog.String("room", name), slog.Int64("round", v.beacon.Round), slog.Any("error", err))
		}
	}
}
