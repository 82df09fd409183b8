package waitingroom

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

type joinCall struct {
	view *view
	who  store.Joiner
}

// joined is the place of a call.
type joined struct {
	place    *store.Place
	created  bool
	mode     Mode     // of the room while its tail was locked
	gathered int64    // places with a number up to it will be drawn, or have been
	refusal  *Refusal // nil: place is the visitor's
}

// Join gives the visitor a place for up to quantity units, or returns the place that the visitor has. It is in the database then.
// It returns a place, or a refusal with ReasonNotStarted, ReasonEnded, ReasonSoldOut, ReasonForbidden or ReasonRateLimited, or an
// error: ErrUnknownRoom, ErrUserRequired, ErrInvalid or ErrUnavailable.
func (s *Service) Join(ctx context.Context, name string, who Visitor, quantity int) (Place, *Refusal, error) {
	v, err := s.view(ctx, name)
	if err != nil {
		return Place{}, nil, err
	}
	most := maxQuantity
	if v.room.def.Sale != "" { // otherwise one place could have all units promised to it
		if most, err = s.opts.Stock.Quota(ctx, v.room.def.Sale, v.room.def.Item); err != nil {
			return Place{}, nil, store.Unavailable(err)
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
	if v.room.ended() != "" || early && v.room.saved.Joined > 0 { // gather_at may have been put off
		old, err := s.read(ctx, &c) // it may have been admitted
		if err == nil {
			p, err := s.joined(v, joined{place: old, gathered: v.room.saved.Gathered})
			return p, nil, err
		}
		if !errors.Is(err, ErrNotJoined) {
			return Place{}, nil, err
		}
	}
	switch {
	case v.room.ended() == PhaseExhausted:
		return Place{}, &Refusal{Reason: ReasonSoldOut}, nil
	case v.room.ended() != "":
		return Place{}, &Refusal{Reason: ReasonEnded, Detail: "The room has ended."}, nil
	case early:
		return Place{}, &Refusal{Reason: ReasonNotStarted, Detail: "The room has not opened."}, nil
	}
	if c.subject == "" {
		c.subject = v.subject("unknown", rand.Text())
	}
	got, err := s.joining.Do(ctx, name, &joinCall{v, store.Joiner{Subject: c.subject, User: who.User, Quantity: quantity, Lane: lane}})
	if err != nil || got.refusal != nil {
		return Place{}, got.refusal, err
	}
	if got.created && v.quiet(now) { // this process gives the turn, and if it dies before that, the others do not rest meanwhile
		s.opts.Changed()
	}
	// A view with another mode would show what a draw changes, and one without an order less than was seen.
	if got.mode != v.room.def.Mode || !v.room.ordered() && got.place.Seen > 0 {
		if v, err = s.newer(ctx, v); err != nil {
			return Place{}, nil, err
		}
	}
	p, err := s.joined(v, got)
	return p, nil, err
}

// joined returns a place with its token, and with its receipt if its number is among those that are drawn.
func (s *Service) joined(v *view, got joined) (shown Place, err error) {
	shown = s.placeWithToken(v, got.place)
	shown.Created = got.created
	if v.room.def.Mode == ModeDraw && got.place.Number <= got.gathered {
		shown.Receipt, err = s.receipt(v, got.place)
	}
	return shown, err
}

// joinBatch gives numbers to the callers that have no place, or whose place may be replaced, in one transaction that locks the
// end of the queue.
func (s *Service) joinBatch(ctx context.Context, name string, take taking[*joinCall, joined]) {
	var r *room
	var now int64
	var mode Mode
	var all joins
	err := s.store.InTx(ctx, func(tx store.Tx) error {
		end, err := tx.LockEnd(ctx, name)
		if err != nil {
			return err
		}
		calls := take()
		if len(calls) == 0 {
			return nil
		}
		joiners, subjects := make([]store.Joiner, len(calls)), make([]string, len(calls))
		for i, c := range calls {
			joiners[i], subjects[i] = c.In.who, c.In.who.Subject
		}
		v := calls[len(calls)-1].In.view
		r, now, mode = &v.room, v.clockNow(s.now()), v.room.def.Mode
		places, err := tx.BySubject(ctx, name, subjects)
		if err != nil {
			return err
		}
		gathers := false
		// Cursors are for places that exist, and for the start of a draw. The view's mode is final if it has places, unless the database has
		// lost commits since: its Joined is then above that of the tail.
		if len(places) > 0 || mode == ModeDraw || r.saved.Joined == 0 || end.Joined < r.saved.Joined {
			row, err := tx.Cursors(ctx, name)
			if err != nil {
				return err
			}
			newest := roomOf(&row)
			mode = newest.def.Mode
			seen := newest.cursors()
			for _, p := range places { // its visitor may have seen it in a process with a newer view
				p.Seen = seen[p.Lane]
			}
			// The view may be older than a start that an operator has moved. A complete list stays complete, even if the clock is set back.
			gathers = mode == ModeDraw && !newest.listed() && end.Now < newest.def.StartsAt.UnixMilli()
		}
		all = assignNumbers(end, joiners, places, r, now, gathers)
		return tx.Add(ctx, name, end, all.added, all.replaced)
	})
	for _, c := range take() {
		if c.Err = err; err != nil {
			continue
		}
		p := all.places[c.In.who.Subject]
		if p == nil {
			c.Err = fmt.Errorf("%w: the lanes of room %s have just changed", ErrUnavailable, name)
			continue
		}
		if wait := rejoinAt(p) - now; r.state(p, p.Position, now) == StateLeft && wait > 0 {
			c.Out.refusal = &Refusal{ReasonRateLimited, "one place after another was given up in this room", time.Duration(wait) * time.Millisecond}
			continue
		}
		c.Out = joined{place: p, created: all.fresh[p.Subject], mode: mode, gathered: all.gathered}
		delete(all.fresh, p.Subject) // the first of several gets 201
	}
}

// joins are what became of joiners.
type joins struct {
	// current ones by subject, also those that were there; not of those who ask for a lane that the room does not have any more
	places   map[string]*store.Place
	fresh    map[string]bool // whose place is new
	added    []store.Joiner  // with their numbers
	replaced []string        // subjects among them whose earlier place is replaced
	gathered int64           // places with a number up to it are drawn
}

// assignNumbers gives numbers to the joiners that have no place in places, or one that may be replaced, counts them in their
// lanes, and adds their places. If the room gathers, they will be drawn.
func assignNumbers(end *store.QueueEnd, joiners []store.Joiner, places map[string]*store.Place, r *room, now int64, gathers bool) joins {
	all := joins{places: places, fresh: make(map[string]bool)}
	for _, j := range joiners {
		lane := slices.IndexFunc(end.Lanes, func(l store.Tail) bool { return l.Name == j.Lane })
		if lane < 0 || all.fresh[j.Subject] {
			continue
		}
		if old := places[j.Subject]; old != nil {
			again, ok := r.mayReplace(old, now)
			if !ok {
				continue
			}
			j.Again, all.replaced = again, append(all.replaced, old.Subject)
		}
		end.Joined++
		end.Lanes[lane].Joined++
		j.Number, j.LaneNumber = end.Joined, end.Lanes[lane].Joined
		all.added, all.fresh[j.Subject] = append(all.added, j), true
		places[j.Subject] = &store.Place{
			Number: j.Number, Lane: j.Lane, LaneNumber: j.LaneNumber, Subject: j.Subject, User: j.User, Quantity: j.Quantity, JoinedAt: end.Now,
			Position: -1, Again: j.Again,
		}
	}
	if len(all.added) > 0 && gathers {
		end.Gathered = end.Joined
		for i := range end.Lanes {
			end.Lanes[i].Gathered = end.Lanes[i].Joined
		}
	}
	all.gathered = end.Gathered
	return all
}

// Somebody who gave up a place joins again at once. Each further time costs twice the wait of the one before: every place that was given up
// stays in the list of the draw, and has to be skipped.
const (
	firstRejoin = 10 * time.Second
	lastRejoin  = 10 * time.Minute
)

// mayReplace reports whether the subject of a place may get a new one at the end, and how many that subject has given up in a row by then.
func (r *room) mayReplace(p *store.Place, now int64) (again int, ok bool) {
	state := r.state(p, p.Position, now)
	if state == StateLeft {
		return p.Again + 1, now >= rejoinAt(p)
	}
	return 0, r.def.MayRejoin(state)
}

// rejoinAt returns when the subject of a place that was given up may join again, in Unix ms.
func rejoinAt(p *store.Place) int64 {
	if p.Again == 0 {
		return p.LeftAt
	}
	return p.LeftAt + min(firstRejoin<<min(p.Again-1, 10), lastRejoin).Milliseconds()
}
