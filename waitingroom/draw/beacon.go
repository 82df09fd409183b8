package draw

import (
	"time"

	"github.com/tidegate/tidegate/internal/drand"
	"github.com/tidegate/tidegate/internal/failure"
)

// Drand is the beacon of rooms whose draw depends on a round of drand's network quicknet. The round is after the end of the list, so the
// order is unknown while the list can be changed.
const Drand = "drand"

const (
	beaconAfter = 10 * time.Second // from the start to the round, so that the root is seen before
	beaconLeast = 3 * time.Second  // from the end of a list that was late to its round
)

// Beacon is the round of drand that a draw depends on. The zero Beacon is that of a draw that depends on none.
type Beacon struct {
	ListedMS  int64 // Unix ms: when the list was complete
	Round     int64
	Signature string // hexadecimal
}

// RoundFor returns the round for a list that was complete at some time.
func RoundFor(startsAt, listedAt time.Time) int64 {
	round := drand.Quicknet.RoundAt(startsAt.Add(beaconAfter))
	if drand.Quicknet.TimeOf(round).Before(listedAt.Add(beaconLeast)) {
		return drand.Quicknet.RoundAt(listedAt.Add(beaconAfter))
	}
	return round
}

// Verify returns an ErrInvalid unless the signature is that of the only round that a list of a room with that start may have.
func (b *Beacon) Verify(startsAt time.Time) error {
	listedAt := time.UnixMilli(b.ListedMS).UTC()
	if listedAt.Before(startsAt) {
		return failure.New(ErrInvalid, "the list was complete at %v, before the start at %v", listedAt, startsAt)
	}
	if round := RoundFor(startsAt, listedAt); b.Round != round {
		return failure.New(ErrInvalid, "a list that was complete at %v, of a room that starts at %v, has round %d, not %d", listedAt, startsAt,
			round, b.Round)
	}
	if err := drand.Quicknet.Verify(b.Round, b.Signature); err != nil {
		return failure.New(ErrInvalid, "%v", err)
	}
	return nil
}
