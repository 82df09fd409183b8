package waitingroom

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/drand"
)

// BeaconDrand is the beacon of rooms whose draw depends on a round of drand's network quicknet. The round is after the end of the list, so
// nobody knows the order while the list can be changed.
const BeaconDrand = "drand"

// network is changed only by tests, which cannot sign for drand.
var network = &drand.Quicknet

const (
	beaconAfter = 10 * time.Second // from the start to the round, so that the root is seen before
	beaconLeast = 3 * time.Second  // from the end of a list that was late to its round
	beaconEvery = time.Second
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

// verify returns an error unless the signature is that of the round, and the round came after the list.
func (b *beacon) verify() error {
	if at := network.TimeOf(b.round); at.UnixMilli() < b.listedAt {
		return fmt.Errorf("%w: round %d was signed at %v, and the list was complete only at %v", ErrInvalid, b.round, at.UTC(), time.UnixMilli(b.listedAt).UTC())
	}
	if err := network.Verify(b.round, b.signature); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
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
		return fmt.Errorf("%w: room %s has no beacon", ErrConflict, r.Room)
	case !r.listed():
		return fmt.Errorf("%w: room %s waits for a round only after its start, at %v", ErrConflict, r.Room, r.StartsAt)
	case round != r.beacon.round:
		return fmt.Errorf("%w: the draw of room %s needs round %d, not %d", ErrConflict, r.Room, r.beacon.round, round)
	}
	r.beacon.signature = strings.ToLower(signature)
	return nil
}

// fetchBeacons gets the signatures that rooms wait for.
func (s *Service) fetchBeacons(ctx context.Context) {
	for name, v := range *s.views.Load() {
		if v.Beacon == "" || !v.listed() || v.beacon.signature != "" || v.ended != "" || v.clockNow(s.now()) < network.TimeOf(v.beacon.round).UnixMilli() {
			continue
		}
		signature, err := s.opts.Beacon(ctx, v.beacon.round)
		if err == nil {
			err = network.Verify(v.beacon.round, signature)
		}
		if err == nil {
			_, err = s.store.change(ctx, name, func(_ *sql.Tx, r *room) error { return r.setBeacon(v.beacon.round, signature) })
		}
		if err != nil && ctx.Err() == nil {
			s.opts.Logger.WarnContext(ctx, "a waiting room waits for its beacon, which cannot be fetched: try again, or give it with tidegate rooms beacon",
				slog.String("room", name), slog.Int64("round", v.beacon.round), slog.Any("error", err))
		}
	}
}
