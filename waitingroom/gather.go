package waitingroom

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/waitingroom/draw"
)

// drawOrder ends the list of those who take part in the draw, and draws, unless the beacon is still awaited.
func (s *Service) drawOrder(ctx context.Context, tx sqldb.Conn, r *room) error {
	if !r.listed() {
		if err := s.endList(ctx, tx, r); err != nil {
			return err
		}
	}
	if r.def.Beacon == "" || r.beacon.Signature != "" {
		r.drawnAt = r.now
	}
	return nil
}

func (s *Service) endList(ctx context.Context, tx sqldb.Conn, r *room) error {
	if err := s.store.lockTail(ctx, tx, r); err != nil { // joins after it know that the room has started
		return err
	}
	root, err := s.root(ctx, tx, r)
	if err != nil {
		return err
	}
	for i := range r.lanes {
		r.lanes[i].Drawn = r.lanes[i].tail.Gathered
	}
	listedAt := r.now // waiting for joins and reading a long list take time, in which a round may be signed
	if err := each(ctx, tx, `SELECT {now ms}`, func(rows sqldb.Row) error { return rows.Scan(&listedAt) }); err != nil {
		return err
	}
	r.root, r.nDrawn = hex.EncodeToString(root), r.gathered
	if r.def.Beacon != "" {
		r.beacon.ListedMS = max(listedAt, r.def.StartsAt.UnixMilli())
		r.beacon.Round = draw.RoundFor(r.def.StartsAt, time.UnixMilli(r.beacon.ListedMS))
	}
	return nil
}

// root returns the root of the list of those who joined before the start.
func (s *Service) root(ctx context.Context, q sqldb.Conn, r *room) ([]byte, error) {
	if err := s.lockRefresh(ctx); err != nil {
		return nil, err
	}
	defer s.unlockRefresh()
	if err := s.confirm(ctx, q, r); err != nil {
		return nil, err
	}
	if err := s.grow(ctx, q, r, r.gathered); err != nil {
		return nil, err
	}
	t := s.trees[r.def.Room]
	if t.Size() != r.gathered {
		delete(s.trees, r.def.Room)
		return nil, fmt.Errorf("waitingroom: the list of room %s has %d places, and must have %d", r.def.Room, t.Size(), r.gathered)
	}
	return t.Root()
}

// grow adds the places up to a number to the leaves that this process has. After an error, the next call reads on. The caller holds the lock of the refreshes.
func (s *Service) grow(ctx context.Context, q sqldb.Conn, r *room, upTo int64) error {
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
	return s.store.listed(ctx, q, r.def.Room, t.Size(), upTo, func(p *place) error {
		if p.number != t.Size()+1 {
			return fmt.Errorf("waitingroom: place %d of room %s follows place %d", p.number, r.def.Room, t.Size())
		}
		return t.Add(p.entry().Leaf(r.def.Room))
	})
}

// confirm forgets the leaves of a room if the database has another place with the number of the last one: a database that lost its last
// commits has given their numbers to others. The caller holds the lock of the refreshes.
func (s *Service) confirm(ctx context.Context, q sqldb.Conn, r *room) error {
	t := s.trees[r.def.Room]
	if t == nil || t.Size() == 0 {
		return nil
	}
	last, err := s.store.find(ctx, q, ofNumbers, r.def.Room, sqldb.JSON([]int64{t.Size()}))
	if err != nil {
		return err
	}
	if len(last) != 1 || !bytes.Equal(t.Last(), last[0].entry().Leaf(r.def.Room)) {
		delete(s.trees, r.def.Room)
	}
	return nil
}
