package waitingroom

import (
	"context"
	"database/sql"
	"log/slog"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/drand"
	"github.com/tidegate/tidegate/internal/failure"
)

// BeaconDrand is the beacon of rooms whose draw depends on a round of drand's network quicknet. The round is after the end of the list, so
// the order is unknown while the list can be changed.
const BeaconDrand = "drand"

// network is changed only by tests, which cannot sign for drand.
var network = &drand.Quicknet

const (
	beaconAfter = 10 * time.Second // from the start to the round, so that the root is seen before
	beaconLeast = 3 * time.Second  // from the end of a list that was late to its round
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

// beacon is what a room knows of its round.
type beacon struct {
	listedAt  int64 // Unix ms: when the list was complete
	round     int64
	signature string // hexadecimal
}

// beaconRound returns the round for a list that was complete at some time.
func beaconRound(startsAt, listedAt time.Time) int64 {
	round := network.RoundAt(startsAt.Add(beaconAfter))
	if network.TimeOf(round).Before(listedAt.Add(beaconLeast)) {
		return network.RoundAt(listedAt.Add(beaconAfter))
	}
	return round
}

func (r *room) publicBeacon() *Beacon {
	if r.Beacon == "" {
		return nil
	}
	round := r.beacon.round
	if !r.listed() {
		round = beaconRound(r.StartsAt, r.StartsAt)
	}
	return &Beacon{Network: network.Name, Chain: network.Chain, Round: round, At: network.TimeOf(round), Signature: r.beacon.signature}
}

// verify returns an error unless the signature is that of the only round that a list of a room with that start may have.
func (b *beacon) verify(startsAt time.Time) error {
	listedAt := time.UnixMilli(b.listedAt).UTC()
	if listedAt.Before(startsAt) {
		return failure.New(ErrInvalid, "the list was complete at %v, before the start at %v", listedAt, startsAt)
	}
	if round := beaconRound(startsAt, listedAt); b.round != round {
		return failure.New(ErrInvalid, "a list that was complete at %v, of a room that starts at %v, has round %d, not %d", listedAt, startsAt, round, b.round)
	}
	if err := network.Verify(b.round, b.signature); err != nil {
		return failure.New(ErrInvalid, "%v", err)
	}
	return nil
}

// SetBeacon gives a room the signature, in hexadecimal, of the round that its draw waits for. It returns an ErrInvalid if it is not that of the round, and
// an ErrConflict if the room waits for another round, or for none. It is idempotent.
func (s *Service) SetBeacon(ctx context.Context, name string, round int64, signature string, by Cause) (Status, error) {
	if network.Verify(round, signature) != nil {
		return Status{}, invalid("signature", "be that of round %d of drand's network %s, in hexadecimal, got %.100q", round, network.Name, signature)
	}
	return s.alter(ctx, name, by, "beacon", signature, "has its beacon", func(r *room) error { return r.setBeacon(round, signature) })
}

func (r *room) setBeacon(round int64, signature string) error {
	switch {
	case r.Beacon == "":
		return failure.New(ErrConflict, "room %s has no beacon", r.Room)
	case !r.listed():
		return failure.New(ErrConflict, "room %s waits for a round only after its start, at %v", r.Room, r.StartsAt)
	case r.ended != "" && r.beacon.signature == "":
		return r.checkNotEnded()
	case round != r.beacon.round:
		return failure.New(ErrConflict, "the draw of room %s needs round %d, not %d", r.Room, r.beacon.round, round)
	}
	r.beacon.signature = strings.ToLower(signature)
	return nil
}

// pollUntilDrawn returns when to read a place again that is to be drawn.
func (v *view) pollUntilDrawn(now int64) time.Duration {
	until := v.StartsAt
	if v.Beacon != "" && v.listed() {
		if until = network.TimeOf(v.beacon.round); now-until.UnixMilli() > beaconLate.Milliseconds() {
			return jitter(PollFar) // it is not known when the round will be had
		}
	}
	return pollBefore(until.Sub(time.UnixMilli(now)))
}

// overdue returns how long ago the round was signed that the draw still waits for; negative: it will be, or the draw waits for none.
func (v *view) overdue(local time.Time) time.Duration {
	if v.Beacon == "" || !v.listed() || v.beacon.signature != "" || v.ended != "" {
		return -1
	}
	return time.UnixMilli(v.clockNow(local)).Sub(network.TimeOf(v.beacon.round))
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
		got, asked := rounds[v.beacon.round]
		if !asked {
			if got.signature, got.err = s.opts.Beacon(ctx, v.beacon.round); got.err == nil {
				got.err = network.Verify(v.beacon.round, got.signature)
			}
			rounds[v.beacon.round] = got
		}
		signature, err := got.signature, got.err
		if err == nil {
			_, err = s.store.change(ctx, name, func(_ *sql.Tx, r *room) error { return r.setBeacon(v.beacon.round, signature) })
		}
		if err != nil && ctx.Err() == nil && overdue > beaconLate { // relays have a round some moments after it is signed
			s.opts.Logger.WarnContext(ctx, "a waiting room waits for its beacon, which cannot be fetched: try again, or give it with tidegate rooms beacon",
				slog.String("room", name), slog.Int64("round", v.beacon.round), slog.Any("error", err))
		}
	}
}
