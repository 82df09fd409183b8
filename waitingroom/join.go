package waitingroom

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
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
	if v.Sale != "" { // otherwise one place could have all units promised to it
		if most, err = s.opts.Stock.Quota(ctx, v.Sale, v.Item); err != nil {
			return Place{}, nil, unavailable(err)
		}
	}
	if quantity < 1 || quantity > most {
		return Place{}, nil, invalid("quantity", "be 1 to %d, got %d", most, quantity)
	}
	subject, known, err := s.identify(v, who)
	if err != nil {
		return Place{}, nil, err
	}
	lane, refusal, err := v.laneFor(&who)
	if err != nil || refusal != nil {
		return Place{}, refusal, err
	}
	now := v.clockNow(s.now())
	early := now < v.GatherAt.UnixMilli()
	if v.ended != "" || early && v.joined > 0 { // gather_at may have been put off
		old, err := s.read(ctx, name, subject, who, known) // it may have been admitted
		if err == nil {
			p, err := s.joined(v, joined{place: old, gathered: v.gathered})
			return p, nil, err
		}
		if !errors.Is(err, ErrNotJoined) {
			return Place{}, nil, err
		}
	}
	switch {
	case v.ended == PhaseExhausted:
		return Place{}, &Refusal{Reason: ReasonSoldOut}, nil
	case v.ended != "":
		return Place{}, &Refusal{Reason: ReasonEnded, Detail: "The room has ended."}, nil
	case early:
		return Place{}, &Refusal{Reason: ReasonNotStarted, Detail: "The room has not opened."}, nil
	}
	if subject == "" {
		subject = v.subject("unknown", rand.Text())
	}
	got, err := s.joining.Do(ctx, name, &joinCall{v, joiner{Subject: subject, Account: who.User, Quantity: quantity, Lane: lane}})
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
	if v.Mode == ModeDraw && got.place.number <= got.gathered {
		shown.Receipt, err = s.receipt(v, got.place)
	}
	return shown, err
}

func (s *Service) joinBatch(ctx context.Context, name string, take taking[*joinCall, joined]) {
	var v *view
	var now int64
	all, err := s.store.join(ctx, name, func() (joiners []joiner) {
		for _, c := range take() {
			v = c.In.view
			joiners = append(joiners, c.In.who)
		}
		if v != nil {
			now = v.clockNow(s.now())
		}
		return joiners
	}, func(old *place) (again int, ok bool) {
		state := old.state(&v.room, old.position, now)
		if state == StateLeft {
			return old.again + 1, now >= old.rejoinAt()
		}
		return 0, v.MayRejoin(state)
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
		if wait := p.rejoinAt() - now; p.state(&v.room, p.position, now) == StateLeft && wait > 0 {
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

// rejoinAt returns when the subject of a place that was given up may join again, in Unix ms.
func (p *place) rejoinAt() int64 {
	if p.again == 0 {
		return p.leftAt
	}
	return p.leftAt + min(firstRejoin<<min(p.again-1, 10), lastRejoin).Milliseconds()
}
