package waitingroom

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/internal/batch"
	"github.com/tidegate/tidegate/internal/sqldb"
)

type claimCall struct {
	subject string
	number  int64 // of the only place that is meant; 0: any
}

// claimed is the place that a call has claimed, or may not claim.
type claimed struct {
	place   *place
	refusal *Refusal // nil: the place is admitted or done
}

// Claim takes the visitor's turn: it returns the place, which is admitted, and then done. It is idempotent. It returns a place, or a refusal with
// ReasonNotYourTurn, ReasonAtCapacity or ReasonTurnLapsed, or an error, such as ErrNotJoined or ErrUnavailable; repeat it after the last.
func (s *Service) Claim(ctx context.Context, name string, who Visitor) (Place, *Refusal, error) {
	c, err := s.holder(ctx, name, who)
	if err != nil {
		return Place{}, nil, err
	}
	call := &claimCall{subject: c.subject}
	if who.byToken {
		call.number = c.known.number
	}
	got, err := s.claiming.Do(ctx, name, call)
	if err != nil || got.refusal != nil {
		return Place{}, got.refusal, err
	}
	return s.placeWithToken(c.view, got.place), nil, nil
}

func (s *Service) claimBatch(ctx context.Context, name string, take taking[*claimCall, claimed]) {
	var locked time.Time
	r, err := s.store.change(ctx, name, func(tx sqldb.Conn, r *room) error {
		locked = s.now()
		return s.claim(ctx, tx, r, take())
	})
	var g errgroup.Group
	g.SetLimit(stockCallsAtOnce)
	for _, c := range take() {
		switch {
		case err != nil:
			c.Out, c.Err = claimed{}, err
		case c.Err == nil && c.Out.refusal == nil && c.Out.place.doneAt == 0:
			g.Go(func() error { c.Err = s.admit(ctx, &r, locked, c.Out.place); return nil })
		}
	}
	_ = g.Wait()
}

// claim admits those whose turn it is, as many as there is room for. They may order only after the commit and admit: otherwise a user could
// order with a pass that was rolled back, and whose units the room promises to the next.
func (s *Service) claim(ctx context.Context, tx sqldb.Conn, r *room, calls []*batch.Call[*claimCall, claimed]) error {
	subjects := make([]string, len(calls))
	for i, c := range calls {
		subjects[i] = c.In.subject
	}
	found, err := s.store.bySubject(ctx, tx, r.def.Room, subjects)
	if err != nil {
		return err
	}
	f, err := s.count(ctx, tx, r)
	if err != nil {
		return err
	}
	active, recent, rt := f.active, f.claimed, r.roomTime(r.now)
	for _, c := range calls {
		c.Out, c.Err = claimed{}, nil
		p := found[c.In.subject]
		if p == nil {
			c.Err = ErrNotJoined
			continue
		}
		if c.In.number > 0 && c.In.number != p.number { // only a place that lapsed, left or is done is replaced
			c.Out.refusal = &Refusal{Reason: ReasonTurnLapsed}
			continue
		}
		c.Out.place = p
		switch state := p.state(r, p.position, r.now); {
		case state == StateDone || state == StateAdmitted:
		case state == StateLapsed:
			c.Out.refusal = &Refusal{Reason: ReasonTurnLapsed}
		case state == StateGathering || state == StateWaiting: // which of them, p.state does not know
			c.Out.refusal = &Refusal{Reason: ReasonNotYourTurn, Detail: "the turn has not come"}
		case state != StateTurn:
			c.Out.refusal = notAdmitted(state)
		case r.stoppedAt > 0:
			c.Out.refusal = &Refusal{Reason: ReasonAtCapacity, Detail: "the room is held, and the turn is kept"}
		case !r.belowLimits(active, recent):
			c.Out.refusal = &Refusal{Reason: ReasonAtCapacity}
			p.untilRT = max(p.untilRT, rt+claimRetryWithin.Milliseconds())
			if _, err := s.store.updateOne(ctx, tx, r.def.Room, p, `until_rt = $4, active_rt = $4`, "", p.untilRT); err != nil {
				return err
			}
		default:
			passRT := rt + r.def.PassLifetime.Milliseconds()
			n, err := s.store.updateOne(ctx, tx, r.def.Room, p, `admitted_at = $4, pass_rt = $5, active_rt = $5, changed_at = {now ms}`, "", r.now, passRT)
			if err != nil {
				return err
			}
			if n == 0 { // a join, for which the turn was over, has replaced the place
				c.Out.refusal = &Refusal{Reason: ReasonTurnLapsed}
				continue
			}
			p.admittedAt, p.passRT = r.now, passRT
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
func (s *Service) admit(ctx context.Context, r *room, readAt time.Time, p *place) error {
	if r.def.Sale == "" {
		return nil
	}
	within := time.Duration(p.passRT-r.roomTime(r.now))*time.Millisecond - s.now().Sub(readAt)
	return unavailable(s.opts.Stock.Admit(ctx, r.def.Sale, r.def.Item, r.def.Room, p.user, time.UnixMilli(p.admittedAt), p.quantity, within))
}

// Restore lets a user order again whom the room admitted, if Redis has forgotten it. It returns false if the room has not, or the item has
// no room.
func (s *Service) Restore(ctx context.Context, sale, item, user string) (bool, error) {
	for _, v := range *s.views.Load() {
		if v.room.def.Sale != sale || v.room.def.Item != item || v.room.ended == PhaseClosed {
			continue
		}
		subject := v.subject("user", user)
		found, err := s.store.bySubject(ctx, s.store.db.Conn, v.room.def.Room, []string{subject})
		if err != nil {
			return false, err
		}
		if p := found[subject]; p != nil && p.state(&v.room, p.position, v.clockNow(s.now())) == StateAdmitted {
			return true, s.admit(ctx, &v.room, v.fetched, p)
		}
	}
	return false, nil
}
