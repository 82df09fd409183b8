package waitingroom

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/internal/batch"
	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// Leave gives up the visitor's place, and a pass that has not been used. A place whose state is final stays as it is. It is idempotent.
func (s *Service) Leave(ctx context.Context, name string, who Visitor) error {
	c, err := s.holder(ctx, name, who)
	if err != nil {
		return err
	}
	p, err := s.read(ctx, &c)
	if err != nil {
		return err
	}
	if c.view.room.state(p, p.Position, c.view.clockNow(s.now())).Final() {
		return nil
	}
	left, err := s.leaving.Do(ctx, name, p.Number)
	if err != nil || !left {
		return err
	}
	return s.refreshOnce(ctx)
}

func (s *Service) leaveBatch(ctx context.Context, name string, take taking[int64, bool]) {
	if _, err := s.locked(ctx, name, func(tx store.Tx, r *room) error { return s.leave(ctx, tx, r, take()) }); err != nil {
		for _, c := range take() {
			c.Out, c.Err = false, err
		}
	}
}

// leave gives up places. Their passes are taken back before their units are free for others. A pass that was used has become an
// order. If the commit fails after that, settle does what is left.
func (s *Service) leave(ctx context.Context, tx store.Tx, r *room, calls []*batch.Call[int64, bool]) error {
	numbers := make([]int64, len(calls))
	for i, c := range calls {
		numbers[i] = c.In
	}
	found, err := tx.Unfinished(ctx, r.def.Room, numbers)
	if err != nil {
		return err
	}
	used, failed := make([]bool, len(found)), make([]error, len(found))
	var g errgroup.Group
	g.SetLimit(stockCallsAtOnce)
	for i, p := range found {
		if r.def.Sale != "" && p.AdmittedAt > 0 {
			g.Go(func() error {
				var err error
				used[i], err = s.opts.Stock.Revoke(ctx, r.def.Sale, r.def.Item, r.def.Room, p.User, time.UnixMilli(p.AdmittedAt))
				failed[i] = store.Unavailable(err)
				return nil
			})
		}
	}
	_ = g.Wait()
	var leaving []*store.Place
	left := make(map[int64]bool)
	failures := make(map[int64]error)
	for i, p := range found {
		if failed[i] != nil {
			failures[p.Number] = failed[i]
		} else if !used[i] {
			leaving, left[p.Number] = append(leaving, p), true
		}
	}
	for _, c := range calls {
		c.Out, c.Err = left[c.In], failures[c.In]
	}
	return tx.Leave(ctx, r.def.Room, leaving)
}

// Finish ends the place of an admitted visitor who is done, in a room without a sale: its capacity is free at once. In a room of a sale the
// order does that, and Finish returns ErrConflict. It is idempotent. It returns a refusal with ReasonNotYourTurn or
// ReasonTurnLapsed for a place that is not admitted.
func (s *Service) Finish(ctx context.Context, name string, who Visitor) (Place, *Refusal, error) {
	c, err := s.holder(ctx, name, who)
	if err != nil {
		return Place{}, nil, err
	}
	if c.view.room.def.Sale != "" {
		return Place{}, nil, failure.New(ErrConflict, "the places of room %s are done by their orders", name)
	}
	p, err := s.read(ctx, &c)
	if err != nil {
		return Place{}, nil, err
	}
	finished := false
	var refusal *Refusal
	_, err = s.locked(ctx, name, func(tx store.Tx, r *room) error {
		ended, err := tx.Finish(ctx, name, p, r.roomTime(r.saved.Now))
		if err != nil {
			return err
		}
		found, err := tx.ByNumber(ctx, name, p.Number)
		if err != nil {
			return err
		}
		if found == nil {
			return ErrNotJoined
		}
		p, finished, refusal = found, ended, nil
		switch state := r.state(p, p.Position, r.saved.Now); {
		case finished || state == StateDone:
		case state == StateLapsed:
			refusal = &Refusal{Reason: ReasonTurnLapsed}
		default:
			refusal = notAdmitted(state)
		}
		return nil
	})
	if err == nil && finished {
		err = s.refreshOnce(ctx) // the pass is refused from now on
	}
	if err != nil || refusal != nil {
		return Place{}, refusal, err
	}
	return s.placeWithToken(c.view, p), nil, nil
}
