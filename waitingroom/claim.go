package waitingroom

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/internal/batch"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

type claimCall struct {
	subject string
	number  int64 // of the only place that is meant; 0: any
}

// claimed is the place that a call has claimed, or may not claim.
type claimed struct {
	place   *store.Place
	refusal *Refusal // nil: the place is admitted or done
}

// Claim takes the visitor's turn: it returns the place, which is admitted, and then done. It is idempotent. It returns a place,
// or a refusal with ReasonNotYourTurn, ReasonAtCapacity or ReasonTurnLapsed, or an error, such as ErrNotJoined or ErrUnavailable;
// repeat it after the last.
func (s *Service) Claim(ctx context.Context, name string, who Visitor) (Place, *Refusal, error) {
	c, err := s.holder(ctx, name, who)
	if err != nil {
		return Place{}, nil, err
	}
	call := &claimCall{subject: c.subject}
	if who.byToken {
		call.number = c.known.Number
	}
	got, err := s.claiming.Do(ctx, name, call)
	if err != nil || got.refusal != nil {
		return Place{}, got.refusal, err
	}
	return s.placeWithToken(c.view, got.place), nil, nil
}

func (s *Service) claimBatch(ctx context.Context, name string, take taking[*claimCall, claimed]) {
	var locked time.Time
	r, err := s.locked(ctx, name, func(tx store.Tx, r *room) error {
		locked = s.now()
		return s.claim(ctx, tx, r, take())
	})
	var g errgroup.Group
	g.SetLimit(stockCallsAtOnce)
	for _, c := range take() {
		switch {
		case err != nil:
			c.Out, c.Err = claimed{}, err
		case c.Err == nil && c.Out.refusal == nil && c.Out.place.DoneAt == 0:
			g.Go(func() error { c.Err = s.admit(ctx, &r, locked, c.Out.place); return nil })
		}
	}
	_ = g.Wait()
}

// claim admits those whose turn it is, as many as there is room for. They may order only after the commit and admit: otherwise a user could
// order with a pass that was rolled back, and whose units the room promises to the next.
func (s *Service) claim(ctx context.Context, tx store.Tx, r *room, calls []*batch.Call[*claimCall, claimed]) error {
	subjects := make([]string, len(calls))
	for i, c := range calls {
		subjects[i] = c.In.subject
	}
	found, err := tx.BySubject(ctx, r.def.Room, subjects)
	if err != nil {
		return err
	}
	f, err := count(ctx, tx, r)
	if err != nil {
		return err
	}
	active, recent, rt := f.Active, f.Claimed, r.roomTime(r.saved.Now)
	for _, c := range calls {
		c.Out, c.Err = claimed{}, nil
		p := found[c.In.subject]
		if p == nil {
			c.Err = ErrNotJoined
			continue
		}
		if c.In.number > 0 && c.In.number != p.Number { // only a place that lapsed, left or is done is replaced
			c.Out.refusal = &Refusal{Reason: ReasonTurnLapsed}
			continue
		}
		c.Out.place = p
		switch state := r.state(p, p.Position, r.saved.Now); {
		case state == StateDone || state == StateAdmitted:
		case state == StateLapsed:
			c.Out.refusal = &Refusal{Reason: ReasonTurnLapsed}
		case state == StateGathering || state == StateWaiting: // which of them, p.state does not know
			c.Out.refusal = &Refusal{Reason: ReasonNotYourTurn, Detail: "the turn has not come"}
		case state != StateTurn:
			c.Out.refusal = notAdmitted(state)
		case r.saved.StoppedAt > 0:
			c.Out.refusal = &Refusal{Reason: ReasonAtCapacity, Detail: "the room is held, and the turn is kept"}
		case !r.belowLimits(active, recent):
			c.Out.refusal = &Refusal{Reason: ReasonAtCapacity}
			p.UntilRT = max(p.UntilRT, rt+claimRetryWithin.Milliseconds())
			if err := tx.ProlongTurn(ctx, r.def.Room, p, p.UntilRT); err != nil {
				return err
			}
		default:
			passRT := rt + r.def.PassLifetime.Milliseconds()
			admitted, err := tx.Admit(ctx, r.def.Room, p, r.saved.Now, passRT)
			if err != nil {
				return err
			}
			if !admitted { // a join, for which the turn was over, has replaced the place
				c.Out.refusal = &Refusal{Reason: ReasonTurnLapsed}
				continue
			}
			p.AdmittedAt, p.PassRT = r.saved.Now, passRT
			active, recent = active+1, recent+1
		}
	}
	return nil
}

// notAdmitted refuses what needs an admitted place, or a turn.
func notAdmitted(state State) *Refusal {
	return &Refusal{Reason: ReasonNotYourTurn, Detail: "the place is " + string(state)}
}

// admit lets the visitor of an admitted place order, if the place is not given up meanwhile. readAt is when r was read, by this process's
// clock. If admit fails, a repeated claim or Restore does the same.
func (s *Service) admit(ctx context.Context, r *room, readAt time.Time, p *store.Place) error {
	if r.def.Sale == "" {
		return nil
	}
	within := time.Duration(p.PassRT-r.roomTime(r.saved.Now))*time.Millisecond - s.now().Sub(readAt)
	return store.Unavailable(s.opts.Stock.Admit(ctx, r.def.Sale, r.def.Item, r.def.Room, p.User, time.UnixMilli(p.AdmittedAt), p.Quantity,
		within))
}

// Restore lets a user order again whom the room admitted, if Redis has forgotten it. It returns false if the room has not, or the item has
// no room.
func (s *Service) Restore(ctx context.Context, sale, item, user string) (bool, error) {
	for _, v := range *s.views.Load() {
		if v.room.def.Sale != sale || v.room.def.Item != item || v.room.ended() == PhaseClosed {
			continue
		}
		subject := v.subject("user", user)
		found, err := s.store.BySubject(ctx, v.room.def.Room, []string{subject})
		if err != nil {
			return false, err
		}
		if p := found[subject]; p != nil && v.room.state(p, p.Position, v.clockNow(s.now())) == StateAdmitted {
			return true, s.admit(ctx, &v.room, v.read, p)
		}
	}
	return false, nil
}
