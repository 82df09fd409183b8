package waitingroom

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/waitingroom/draw"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// drawOrder ends the list of those who take part in the draw, and draws, unless the beacon is still awaited.
func (s *Service) drawOrder(ctx context.Context, tx store.Tx, r *room) error {
	if !r.listed() {
		if err := s.endList(ctx, tx, r); err != nil {
			return err
		}
	}
	if r.def.Beacon == "" || r.saved.Beacon.Signature != "" {
		r.saved.DrawnAt = r.saved.Now
	}
	return nil
}

func (s *Service) endList(ctx context.Context, tx store.Tx, r *room) error {
	if err := tx.LockTail(ctx, r.def.Room, &r.saved); err != nil { // joins after it know that the room has started
		return err
	}
	root, err := s.root(ctx, tx, r)
	if err != nil {
		return err
	}
	for i := range r.saved.Lanes {
		r.saved.Lanes[i].Drawn = r.saved.Lanes[i].Tail.Gathered
	}
	listedAt, err := tx.Now(ctx) // waiting for joins and reading a long list take time, in which a round may be signed
	if err != nil {
		return err
	}
	r.saved.Root, r.saved.NDrawn = hex.EncodeToString(root), r.saved.Gathered
	if r.def.Beacon != "" {
		r.saved.Beacon.ListedMS = max(listedAt, r.def.StartsAt.UnixMilli())
		r.saved.Beacon.Round = draw.RoundFor(r.def.StartsAt, time.UnixMilli(r.saved.Beacon.ListedMS))
	}
	return nil
}

// root returns the root of the list of those who joined before the start.
func (s *Service) root(ctx context.Context, q store.Reader, r *room) ([]byte, error) {
	if err := s.lockRefresh(ctx); err != nil {
		return nil, err
	}
	defer s.unlockRefresh()
	if err := s.confirm(ctx, q, r); err != nil {
		return nil, err
	}
	if err := s.grow(ctx, q, r, r.saved.Gathered); err != nil {
		return nil, err
	}
	t := s.trees[r.def.Room]
	if t.Size() != r.saved.Gathered {
		delete(s.trees, r.def.Room)
		return nil, fmt.Errorf("waitingroom: the list of room %s has %d places, and must have %d", r.def.Room, t.Size(), r.saved.Gathered)
	}
	return t.Root()
}

// grow adds the places up to a number to the leaves that this process has. After an error, the next call reads on. The caller
// holds the lock of the refreshes.
func (s *Service) grow(ctx context.Context, q store.Reader, r *room, upTo int64) error {
	if t := s.trees[r.def.Room]; t != nil && t.Size() >= upTo {
		return nil
	}
	if err := s.confirm(ctx, q, r); err != nil {
		return err
	}
	t := s.trees[r.def.Room]
	if t == nil {
		t = draw.NewTree()
		s.trees[r.def.Room] = t
	}
	return q.Listed(ctx, r.def.Room, t.Size(), upTo, func(p *store.Place) error {
		if p.Number != t.Size()+1 {
			return fmt.Errorf("waitingroom: place %d of room %s follows place %d", p.Number, r.def.Room, t.Size())
		}
		return t.Add(entryOf(p).Leaf(r.def.Room))
	})
}

// confirm forgets the leaves of a room if the database has another place with the number of the last one: a database that lost its last
// commits has given their numbers to others. The caller holds the lock of the refreshes.
func (s *Service) confirm(ctx context.Context, q store.Reader, r *room) error {
	t := s.trees[r.def.Room]
	if t == nil || t.Size() == 0 {
		return nil
	}
	last, err := q.ByNumber(ctx, r.def.Room, t.Size())
	if err != nil {
		return err
	}
	if last == nil || !bytes.Equal(t.Last(), entryOf(last).Leaf(r.def.Room)) {
		delete(s.trees, r.def.Room)
	}
	return nil
}
