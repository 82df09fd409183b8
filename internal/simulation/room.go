package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/waitingroom"
	rooms "github.com/tidegate/tidegate/waitingroom/memory"
)

// A room, and the item whose orders need a turn of it.
const (
	room   = "hall"
	inRoom = "item-in-room"
)

// openRooms gives a process its waiting rooms.
func (p *process) openRooms() {
	p.places = p.w.rooms.Connect(rooms.Faults{Around: func(ctx context.Context, _ rooms.Op, do func() error) error {
		return p.around(ctx, "", do)
	}})
	p.rooms = waitingroom.New(p.places, waitingroom.Options{
		Secret: []byte("a secret of thirty-two characters"), Stock: p.service.RoomStock(), Logger: p.log,
	})
}

// openRoom makes a room for one item of the sale.
func (w *World) openRoom(ctx context.Context, p *process) error {
	d := waitingroom.Definition{
		Room: room, Sale: sale, Item: inRoom, GatherAt: time.Now().Add(-time.Minute), StartsAt: time.Now().Add(w.chance.upTo(w.shape.Sells / 2)),
		Mode: waitingroom.ModeDraw, Bound: waitingroom.BoundStrict, RequiresUser: true, RatePerMin: 600,
		ClaimWindow: 3 * time.Second, PassLifetime: 3 * time.Second,
	}
	if w.chance.oneIn(2) {
		d.Mode = waitingroom.ModeFIFO
	}
	if w.chance.oneIn(2) {
		d.Capacity = w.chance.between(1, 4)
	}
	return until(ctx, 200*time.Millisecond, func() error {
		_, _, err := p.rooms.Put(ctx, d)
		return err
	})
}

// visitor is one who waits in the room.
type visitor struct {
	*buyer

	number   int64
	position int64
	silent   bool // he does not use his turn
}

func (w *World) visit(n int) {
	name := fmt.Sprintf("buyer-in-room-%d", n)
	v := &visitor{silent: w.chance.oneIn(4), buyer: &buyer{w: w, n: w.shape.Buyers + n, name: name, req: orders.Request{
		Sale: sale, Item: inRoom, User: name, Key: name + "-key", Quantity: 1,
	}}}
	time.Sleep(w.chance.upTo(w.shape.Sells))
	if w.chance.oneIn(5) {
		if o, ok := v.order(); ok {
			w.breach("W25", "%s got order %s without a turn", name, o.ID)
		}
	}
	join := func(ctx context.Context, p *process) (waitingroom.Place, *waitingroom.Refusal, error) {
		return p.rooms.Join(ctx, room, v.visitor(), 1)
	}
	if !v.call("join", join) {
		return
	}
	if w.chance.oneIn(2) {
		v.call(joinAgain, join)
	}
	v.wait()
}

// joinAgain gives a visitor another place if the first one has lapsed. Before the draw it cannot have.
const joinAgain = "join again"

func (v *visitor) visitor() waitingroom.Visitor { return waitingroom.Visitor{User: v.name} }

// wait looks at the place until it has an end.
func (v *visitor) wait() {
	for since := v.w.now(); ; time.Sleep(200*time.Millisecond + v.w.chance.upTo(time.Second)) {
		var place waitingroom.Place
		if !v.call("look", func(ctx context.Context, p *process) (waitingroom.Place, *waitingroom.Refusal, error) {
			var err error
			place, err = p.rooms.Place(ctx, room, v.visitor())
			return place, nil, err
		}) {
			return
		}
		switch place.State {
		case waitingroom.StateTurn:
			if !v.silent {
				v.call("claim", func(ctx context.Context, p *process) (waitingroom.Place, *waitingroom.Refusal, error) {
					return p.rooms.Claim(ctx, room, v.visitor())
				})
			}
		case waitingroom.StateAdmitted:
			if o, ok := v.order(); ok {
				v.pay(o.ID, 1)
				return
			}
			v.comparePass(place.PassUntil)
		case waitingroom.StateDone, waitingroom.StateLapsed, waitingroom.StateTurnedAway:
			return
		}
		if v.w.quiet() && v.w.now()-since > v.w.shape.Sells+wholeWithin {
			v.w.breach("W17", "%s is still %s after %v", v.name, place.State, v.w.now()-since)
			return
		}
	}
}

// comparePass is W17: who has a turn gets a unit, unless the sale was rebuilt or the clock of the room is wrong.
func (v *visitor) comparePass(until time.Time) {
	clock := slices.ContainsFunc(v.w.shape.Faults, func(f Fault) bool { return f.Kind == clockJumps })
	_, p := v.w.api()
	now, err := p.service.SaleState(sale)
	if v.refused == orders.ReasonSoldOut && v.refusedAt.Before(until) && !clock && err == nil && now.Epoch == 1 {
		v.w.breach("W17", "%s had a pass until %v, and everything was sold", v.name, until.Sub(v.w.began))
	}
}

// call calls a room until it answers, and compares the place with the one before. It reports whether there is one.
func (v *visitor) call(what string, call func(context.Context, *process) (waitingroom.Place, *waitingroom.Refusal, error)) bool {
	for since := v.w.now(); ; {
		_, p := v.w.api()
		ctx, cancel := context.WithTimeout(v.w.ctx, 2*time.Second)
		place, refusal, err := call(ctx, p)
		cancel()
		switch {
		case p.dead.Load():
		case err == nil && refusal == nil:
			v.w.trace("%s: %s: %d %s", v.name, what, place.Number, place.State)
			v.note(what, &place)
			return true
		case err == nil:
			v.w.trace("%s: %s: %s", v.name, what, refusal.Reason)
			return false
		case !errors.Is(err, waitingroom.ErrUnavailable) && !errors.Is(err, orders.ErrUnavailable) && !errors.Is(err, orders.ErrRecovering):
			v.w.breach("answer", "%s: %s: %v", v.name, what, err)
			return false
		}
		if !v.again(since, what) {
			return false
		}
	}
}

func (v *visitor) note(what string, p *waitingroom.Place) {
	if v.number != 0 && p.Number != v.number && what == joinAgain && p.State != waitingroom.StateGathering {
		v.position = 0
	} else if v.number != 0 && p.Number != v.number {
		v.w.breach("W1", "%s has the places %d and %d", v.name, v.number, p.Number)
	}
	if v.position > 0 && p.Position > v.position {
		v.w.breach("W3", "the position of %s rose from %d to %d", v.name, v.position, p.Position)
	}
	if v.number = p.Number; p.Position > 0 {
		v.position = p.Position
	}
}

// awaitWholeRoom waits until the room's own verification finds it whole.
func (w *World) awaitWholeRoom(ctx context.Context) error {
	if w.shape.Visitors == 0 {
		return nil
	}
	return until(ctx, time.Second, func() error {
		_, p := w.api()
		checks, err := p.rooms.Verify(ctx, room)
		var broken []string
		for _, c := range checks {
			if !c.OK {
				broken = append(broken, c.Name+" "+c.Detail)
			}
		}
		if err == nil && broken == nil {
			return nil
		}
		return errors.Join(errors.New(strings.Join(broken, "; ")), err)
	})
}
