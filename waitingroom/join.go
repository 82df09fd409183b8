package waitingroom

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/internal/sqldb"
)

type joinCall struct {
	view *view
	who  joiner
}

// joined is the place of a call.
type joined struct {
	place    *place
	created  bool
	gathered int64    // places with a number up to it will be drawn, or have been
	refusal  *Refusal // nil: place is the visitor's
}

// Join gives the visitor a place for up to quantity units, or returns the place that the visitor has. It is in the database then. It returns
// a place, or a refusal with ReasonNotStarted, ReasonEnded, ReasonSoldOut, ReasonForbidden or ReasonRateLimited, or an error: ErrUnknownRoom,
// ErrUserRequired, ErrInvalid or ErrUnavailable.
func (s *Service) Join(ctx context.Context, name string, who Visitor, quantity int) (Place, *Refusal, error) {
	v, err := s.view(ctx, name)
	if err != nil {
		return Place{}, nil, err
	}
	most := maxQuantity
	if v.room.def.Sale != "" { // otherwise one place could have all units promised to it
		if most, err = s.opts.Stock.Quota(ctx, v.room.def.Sale, v.room.def.Item); err != nil {
			return Place{}, nil, unavailable(err)
		}
	}
	if quantity < 1 || quantity > most {
		return Place{}, nil, invalid("quantity", "be 1 to %d, got %d", most, quantity)
	}
	c, err := s.identify(v, who)
	if err != nil {
		return Place{}, nil, err
	}
	lane, refusal, err := v.room.def.laneFor(&who)
	if err != nil || refusal != nil {
		return Place{}, refusal, err
	}
	now := v.clockNow(s.now())
	early := now < v.room.def.GatherAt.UnixMilli()
	if v.room.ended != "" || early && v.room.joined > 0 { // gather_at may have been put off
		old, err := s.read(ctx, &c) // it may have been admitted
		if err == nil {
			p, err := s.joined(v, joined{place: old, gathered: v.room.gathered})
			return p, nil, err
		}
		if !errors.Is(err, ErrNotJoined) {
			return Place{}, nil, err
		}
	}
	switch {
	case v.room.ended == PhaseExhausted:
		return Place{}, &Refusal{Reason: ReasonSoldOut}, nil
	case v.room.ended != "":
		return Place{}, &Refusal{Reason: ReasonEnded, Detail: "The room has ended."}, nil
	case early:
		return Place{}, &Refusal{Reason: ReasonNotStarted, Detail: "The room has not opened."}, nil
	}
	if c.subject == "" {
		c.subject = v.subject("unknown", rand.Text())
	}
	got, err := s.joining.Do(ctx, name, &joinCall{v, joiner{Subject: c.subject, Account: who.User, Quantity: quantity, Lane: lane}})
	if err != nil || got.refusal != nil {
		return Place{}, got.refusal, err
	}
	if v, err = s.upToDate(ctx, v, got.place); err != nil {
		return Place{}, nil, err
	}
	p, err := s.joined(v, got)
	return p, nil, err
}

// joined returns a place with its token, and with its receipt if its number is among those that are drawn.
func (s *Service) joined(v *view, got joined) (shown Place, err error) {
	shown = s.placeWithToken(v, got.place)
	shown.Created = got.created
	if v.room.def.Mode == ModeDraw && got.place.number <= got.gathered {
		shown.Receipt, err = s.receipt(v, got.place)
	}
	return shown, err
}

// joinBatch gives numbers to the callers that have no place, or whose place may be replaced, in one transaction that locks the end of the queue.
func (s *Service) joinBatch(ctx context.Context, name string, take taking[*joinCall, joined]) {
	var r *room
	var now int64
	var all joins
	err := s.store.inTx(ctx, func(tx sqldb.Conn) error {
		end, err := s.store.lockEnd(ctx, tx, name)
		if err != nil {
			return err
		}
		calls := take()
		if len(calls) == 0 {
			return nil
		}
		joiners, subjects := make([]joiner, len(calls)), make([]string, len(calls))
		for i, c := range calls {
			joiners[i], subjects[i] = c.In.who, c.In.who.Subject
		}
		v := calls[len(calls)-1].In.view
		r, now = &v.room, v.clockNow(s.now())
		places, err := s.store.bySubject(ctx, tx, name, subjects)
		if err != nil {
			return err
		}
		all = end.assign(joiners, places, r, now)
		return s.store.add(ctx, tx, name, end, &all)
	})
	if err == nil && len(all.fresh) < len(all.places) { // visitors who have a place may have seen it in a process with a newer view
		var seen map[string]int64
		seen, err = s.store.cursors(ctx, name)
		for subject, p := range all.places {
			if !all.fresh[subject] {
				p.seen = seen[p.lane]
			}
		}
	}
	for _, c := range take() {
		if c.Err = err; err != nil {
			continue
		}
		p := all.places[c.In.who.Subject]
		if p == nil {
			c.Err = fmt.Errorf("%w: the lanes of room %s have just changed", ErrUnavailable, name)
			continue
		}
		if wait := p.rejoinAt() - now; p.state(r, p.position, now) == StateLeft && wait > 0 {
			c.Out.refusal = &Refusal{ReasonRateLimited, "one place after another was given up in this room", time.Duration(wait) * time.Millisecond}
			continue
		}
		c.Out = joined{place: p, created: all.fresh[p.subject], gathered: all.gathered}
		delete(all.fresh, p.subject) // the first of several gets 201
	}
}

// Somebody who gave up a place joins again at once. Each further time costs twice the wait of the one before: every place that was given up
// stays in the list of the draw, and has to be skipped.
const (
	firstRejoin = 10 * time.Second
	lastRejoin  = 10 * time.Minute
)

// mayReplace reports whether the subject of a place may get a new one at the end, and how many that subject has given up in a row by then.
func (r *room) mayReplace(p *place, now int64) (again int, ok bool) {
	state := p.state(r, p.position, now)
	if state == StateLeft {
		return p.again + 1, now >= p.rejoinAt()
	}
	return 0, r.def.MayRejoin(state)
}

// rejoinAt returns when the subject of a place that was given up may join again, in Unix ms.
func (p *place) rejoinAt() int64 {
	if p.again == 0 {
		return p.leftAt
	}
	return p.leftAt + min(firstRejoin<<min(p.again-1, 10), lastRejoin).Milliseconds()
}
