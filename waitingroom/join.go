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

type joinResult struct {
	place    *place
	created  bool
	gathered int64 // places with a number up to it will be drawn, or have been
}

// Join gives the visitor a place for up to quantity units, or returns the place that the visitor has. It is in the database then.
// created is false for a place that was there. It returns ErrUnknownRoom, ErrUserRequired, ErrTier, ErrNotStarted, ErrEnded, ErrSoldOut, ErrInvalid,
// ErrUnavailable or ErrRejoin.
func (s *Service) Join(ctx context.Context, name string, who Visitor, quantity int) (p Place, created bool, err error) {
	v, err := s.view(ctx, name)
	if err != nil {
		return Place{}, false, err
	}
	most := maxQuantity
	if v.Sale != "" { // otherwise one place could have all units promised to it
		if most, err = s.opts.Stock.Quota(ctx, v.Sale, v.Item); err != nil {
			return Place{}, false, unavailable(err)
		}
	}
	if quantity < 1 || quantity > most {
		return Place{}, false, invalid("quantity", "be 1 to %d, got %d", most, quantity)
	}
	subject, known, err := s.identify(v, who)
	if err != nil {
		return Place{}, false, err
	}
	lane, err := v.laneFor(&who)
	if err != nil {
		return Place{}, false, err
	}
	now := v.clockNow(s.now())
	early := now < v.GatherAt.UnixMilli()
	if v.ended != "" || early && v.joined > 0 { // gather_at may have been put off
		old, err := s.read(ctx, name, subject, who, known) // it may have been admitted
		if err == nil {
			p, err := s.joined(v, old, v.gathered)
			return p, false, err
		}
		if !errors.Is(err, ErrNotJoined) {
			return Place{}, false, err
		}
	}
	switch {
	case v.ended == PhaseExhausted:
		return Place{}, false, ErrSoldOut
	case v.ended != "":
		return Place{}, false, ErrEnded
	case early:
		return Place{}, false, ErrNotStarted
	}
	if subject == "" {
		subject = v.subject("unknown", rand.Text())
	}
	got, err := s.joining.Do(ctx, name, &joinCall{v, joiner{Subject: subject, Account: who.User, Quantity: quantity, Lane: lane}})
	if err != nil {
		return Place{}, false, err
	}
	if v, err = s.upToDate(ctx, v, got.place); err != nil {
		return Place{}, false, err
	}
	p, err = s.joined(v, got.place, got.gathered)
	return p, got.created, err
}

// joined returns a place with its token, and with its receipt if its number is among those that are drawn, up to gathered.
func (s *Service) joined(v *view, p *place, gathered int64) (shown Place, err error) {
	shown = s.placeWithToken(v, p)
	if v.Mode == ModeDraw && p.number <= gathered {
		shown.Receipt, err = s.receipt(v, p)
	}
	return shown, err
}

func (s *Service) joinBatch(ctx context.Context, name string, take taking[*joinCall, joinResult]) {
	var v *view
	var now int64
	current, fresh, gathered, err := s.store.join(ctx, name, func() (joiners []joiner) {
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
	if err == nil && len(fresh) < len(current) { // visitors who have a place may have seen it in a process with a newer view
		var seen map[string]int64
		seen, err = s.store.cursors(ctx, name)
		for subject, p := range current {
			if !fresh[subject] {
				p.seen = seen[p.lane]
			}
		}
	}
	for _, c := range take() {
		if c.Err = err; err != nil {
			continue
		}
		p := current[c.In.who.Subject]
		if p == nil {
			c.Err = fmt.Errorf("%w: the lanes of room %s have just changed", ErrUnavailable, name)
			continue
		}
		if wait := p.rejoinAt() - now; p.state(&v.room, p.position, now) == StateLeft && wait > 0 {
			c.Err = &Error{Kind: ErrRejoin, Detail: "one place after another was given up in this room", RetryAfter: time.Duration(wait) * time.Millisecond}
			continue
		}
		c.Out = joinResult{p, fresh[p.subject], gathered}
		delete(fresh, p.subject) // the first of several gets 201
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
