package waitingroom

import (
	"context"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/cloudflare/circl/sign/bls"

	"github.com/tidegate/tidegate/internal/dialects"
	"github.com/tidegate/tidegate/internal/drand"
	"github.com/tidegate/tidegate/waitingroom/internal/sqlstore"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// ForDialects returns the operations that only other products' clients need.
func (s *Service) ForDialects() dialects.Places[Visitor, Place] { return places{s} }

// ByToken is one of them.
func ByToken(token, user string, anyUser bool) Visitor { return places{}.ByToken(token, user, anyUser) }

// SetClock makes a time the one of the database and of this process, and reads the rooms.
func (s *Service) SetClock(ctx context.Context, at time.Time) error {
	s.spell(at)
	s.now = func() time.Time { return at }
	return s.refresh(ctx)
}

// Refresh reads the rooms.
func (s *Service) Refresh(ctx context.Context) error { return s.refresh(ctx) }

// Turn does one round of Run.
func (s *Service) Turn(ctx context.Context) error { return s.tickRooms(ctx) }

// Tick gives turns in one room.
func (s *Service) Tick(ctx context.Context, room string) error {
	_, err := s.tick(ctx, room)
	return err
}

// Woken reports whether Run would do a round at once, and takes that back.
func (s *Service) Woken() bool {
	select {
	case <-s.wake:
		return true
	default:
		return false
	}
}

// Prune deletes old rooms.
func (s *Service) Prune(ctx context.Context) error { return s.prune(ctx) }

// Replace replaces a text in all statements from now on.
func (s *Service) Replace(text, by string) {
	s.spell(s.now(), text, by)
}

var plain sync.Map // *sqlstore.Store → its database without words of tests

// spell makes a time the database's, and replaces texts in statements, which a store in memory has none of.
func (s *Service) spell(now time.Time, words ...string) {
	db, ok := s.store.(*sqlstore.Store)
	if !ok {
		s.store.(interface{ SetClock(at time.Time) }).SetClock(now)
		return
	}
	of, _ := plain.LoadOrStore(db, *db)
	first := of.(sqlstore.Store)
	*db = *first.With(append(words, "{now ms}", fmt.Sprintf("CAST(%d AS bigint)", now.UnixMilli()))...)
}

// GivenUp returns how many passes of a room this process knows to have been given up.
func (s *Service) GivenUp(room string) int { return len((*s.views.Load())[room].revoked) }

// TokenOf is what a token says of a place.
type TokenOf struct {
	Seq, JoinedAt int64
	Quantity      uint32
	Lane          string
	LaneSeq, Seen int64
	Subject       string
}

// PlaceToken is placeToken.
func (s *Service) PlaceToken(room string, t TokenOf) string {
	return s.placeToken(room, &store.Place{Number: t.Seq, JoinedAt: t.JoinedAt, Quantity: int(t.Quantity), Lane: t.Lane, LaneNumber: t.LaneSeq, Seen: t.Seen, Subject: t.Subject})
}

// ParseToken is parseToken; zero: it is no token.
func (s *Service) ParseToken(room, token string) (found TokenOf) {
	if p, _ := s.parseToken(room, token); p != nil {
		found = TokenOf{p.Number, p.JoinedAt, uint32(p.Quantity), p.Lane, p.LaneNumber, p.Seen, p.Subject}
	}
	return found
}

// testKey signs in the place of drand.
var testKey = must(bls.KeyGen[bls.KeyG2SigG1]([]byte("a seed of at least 32 bytes for tests"), nil, nil))

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Sign returns the signature of a round.
func Sign(round int64) string { return hex.EncodeToString(bls.Sign(testKey, drand.Message(round))) }

// All draws of tests have beacons of a network that tests can sign for. Package drand's tests verify rounds of the real one.
func init() {
	drand.Quicknet.Key = hex.EncodeToString(must(testKey.PublicKey().MarshalBinary()))
}

// FetchBeacons asks for the beacons that rooms wait for.
func (s *Service) FetchBeacons(ctx context.Context) {
	if err := s.refresh(ctx); err == nil {
		s.fetchBeacons(ctx)
	}
}

// UnguardClosed lets items of closed rooms be ordered without a turn.
func (s *Service) UnguardClosed(ctx context.Context) error { return s.unguardClosed(ctx) }
