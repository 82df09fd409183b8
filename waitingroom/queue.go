package waitingroom

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tidegate/tidegate/waitingroom/draw"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// queue is the end of a lane that a tick gives turns to: places that can have one, in order, from the cursor on.
type queue struct {
	lane  *store.Lane
	order *draw.Order
	next  []*store.Place
	read  int64 // positions below it have been looked at, and those that can have a turn are in next or have been taken
	last  int64 // the tick looks up to it
	near  int64 // positions of a draw that the next statement looks at
}

func newQueue(l *store.Lane, o *draw.Order, look int64) queue {
	return queue{lane: l, order: o, read: l.Served, last: min(l.Tail.Joined, l.Served+look), near: maxTurns}
}

const maxNear = 2_000 // positions of a draw in a statement

// more reports whether the lane goes on behind what the tick looks at.
func (q *queue) more() bool { return q.last < q.lane.Tail.Joined }

// take removes the first of next, and moves the cursor behind it.
func (q *queue) take() *store.Place {
	p := q.next[0]
	q.next, q.lane.Served = q.next[1:], p.Position+1
	return p
}

// nextPlace returns the next place of a lane that can have a turn, or nil if there is none up to q.last, which it lowers when the
// tick runs out of time. It moves the cursor over places that cannot have one.
func (q *queue) nextPlace(ctx context.Context, tx store.Tx, r *room) (*store.Place, error) {
	for len(q.next) == 0 {
		q.lane.Served = q.read
		if end, ok := ctx.Deadline(); ok && time.Until(end) < tickTimeout/2 {
			q.last = q.read // the next tick goes on: what this one has looked at must be committed in time
		}
		if q.read == q.last {
			return nil, nil
		}
		if err := q.readPlaces(ctx, tx, r); err != nil {
			return nil, err
		}
	}
	return q.next[0], nil
}

// readPlaces reads further places that can have a turn. Drawn positions are looked at some at a time; of others, whose numbers
// follow each other, one statement finds the first maxTurns.
func (q *queue) readPlaces(ctx context.Context, tx store.Tx, r *room) (err error) {
	if q.read >= q.order.Drawn() {
		q.next, err = tx.NextLive(ctx, r.def.Room, q.lane.Name, q.read, q.last, maxTurns)
		for _, p := range q.next {
			p.Position = q.order.Position(p.LaneNumber)
		}
		if q.read = q.last; len(q.next) == maxTurns {
			q.read = q.next[maxTurns-1].Position + 1
		}
		return err
	}
	end := min(q.read+q.near, q.last, q.order.Drawn())
	q.near = min(q.near*10, maxNear)
	numbers := make([]int64, 0, end-q.read)
	at := make(map[int64]int64, end-q.read)
	for position := q.read; position < end; position++ {
		number := q.order.Number(position)
		numbers, at[number] = append(numbers, number), position
	}
	q.read = end
	q.next, err = tx.Live(ctx, r.def.Room, q.lane.Name, numbers)
	for _, p := range q.next {
		p.Position = at[p.LaneNumber]
	}
	slices.SortFunc(q.next, func(a, b *store.Place) int { return cmp.Compare(a.Position, b.Position) })
	return err
}
