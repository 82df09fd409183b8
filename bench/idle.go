package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/bench/stack"
)

// settled is the time after the last order before a stack counts as idle.
const settled = 2 * time.Second

// roomsRest is the same with rooms: they rest 30 s after their last use, and Postgres counts that within 10 s.
const roomsRest = 45 * time.Second

// A resting stack has sales, and perhaps more, and no buyers.
type resting struct {
	name    string
	stack   *stack.Stack
	options stack.Options
	sales   int
	more    func(ctx context.Context, s *shop) error // defines what the stack has besides; nil: nothing
	settle  time.Duration                            // until all of it rests; 0: settled
}

// resting returns the stacks to measure: each with one sale, and this project's with more of everything.
func (r *run) resting() (all []resting) {
	for _, st := range r.stacks {
		all = append(all, resting{name: st.Name, stack: st, sales: 1})
	}
	for _, st := range r.stacks {
		if !st.Own() {
			continue
		}
		all = append(all, resting{name: fmt.Sprintf("%s, %d sales", st.Name, r.size.idleSales), stack: st, sales: r.size.idleSales},
			resting{name: st.Embedded().Name, stack: st.Embedded(), sales: 1},
			resting{name: st.Name + ", 2 APIs", stack: st, options: stack.Options{APIs: 2}, sales: 1})
		for _, n := range r.size.idleRooms {
			all = append(all, resting{
				name: fmt.Sprintf("%s, 2 APIs, %d rooms", st.Name, n), stack: st, options: stack.Options{APIs: 2}, sales: 1,
				more: func(ctx context.Context, s *shop) error { return s.defineRooms(ctx, n, "") }, settle: roomsRest,
			})
		}
		rooms := r.size.idleRooms[len(r.size.idleRooms)-1]
		all = append(all, resting{
			name: fmt.Sprintf("%s, 2 APIs, a sale of %d rooms", st.Name, rooms), stack: st, options: stack.Options{APIs: 2}, sales: 1,
			more: func(ctx context.Context, s *shop) error {
				if err := s.Offer(ctx, soldInRooms, rooms, 1, 0); err != nil {
					return err
				}
				return s.defineRooms(ctx, rooms, soldInRooms)
			}, settle: roomsRest,
		}, resting{
			name: fmt.Sprintf("%s, 2 APIs, %d semaphores", st.Name, r.size.idleSemaphores), stack: st, options: stack.Options{APIs: 2}, sales: 1,
			more: func(ctx context.Context, s *shop) error { return s.defineSemaphores(ctx, r.size.idleSemaphores) },
		})
	}
	return all
}

// soldInRooms is a sale each of whose items has a room.
const soldInRooms = "bench-rooms"

// defineRooms defines rooms that have begun, of the items of a sale or, if that is empty, of none.
func (s *shop) defineRooms(ctx context.Context, n int, sale string) error {
	starts := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	return s.define(ctx, n, func(i int) (path, body string) {
		of := `"capacity":10`
		if sale != "" {
			of = fmt.Sprintf(`"sale":%q,"item":%q`, sale, stack.Item(i))
		}
		return fmt.Sprintf("/v1/rooms/room-%d", i), fmt.Sprintf(`{"mode":"fifo","starts_at":%q,%s}`, starts, of)
	})
}

func (s *shop) defineSemaphores(ctx context.Context, n int) error {
	return s.define(ctx, n, func(i int) (path, body string) { return fmt.Sprintf("/v1/semaphores/semaphore-%d", i), `{"limit":5}` })
}

func (s *shop) define(ctx context.Context, n int, of func(i int) (path, body string)) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(offersAtOnce)
	for i := range n {
		path, body := of(i)
		g.Go(func() error { return s.Put(ctx, path, body) })
	}
	return g.Wait()
}

// restingKinds are the processes of a stack.
var restingKinds = []string{"API", "worker", "Redis", "Postgres"}

// atRest measures stacks without buyers.
func (r *run) atRest(ctx context.Context) error {
	if err := r.stackUp(); err != nil {
		return err
	}
	columns := append(restingKinds[:len(restingKinds):len(restingKinds)], counted...)
	head := []string{"% of a core"}
	for i, name := range columns {
		if i >= len(restingKinds) {
			name += "/s"
		}
		head = append(head, name)
	}
	tab := newTable(head...)
	figures := map[string]map[string]float64{}
	for _, at := range r.resting() {
		if !r.chosen.MatchString(at.name) {
			continue
		}
		found, err := r.idleTurn(ctx, &at)
		if err != nil {
			return fmt.Errorf("%s: %w", at.name, err)
		}
		figures[at.name] = found
		cells := []string{at.name}
		for _, name := range columns {
			cell := ""
			if v, ok := found[name]; ok {
				cell = one(v)
			}
			cells = append(cells, cell)
		}
		tab.add(cells...)
	}
	r.keep("idle", figures)
	r.print(tab, fmt.Sprintf("At rest for %v, with an open sale and what the name states; commands are Redis', also in scripts, transactions Postgres', waits voluntary context switches", r.size.idle))
	return nil
}

func (r *run) idleTurn(ctx context.Context, at *resting) (map[string]float64, error) {
	running, err := at.stack.Start(ctx, r.servers, at.options)
	if err != nil {
		return nil, err
	}
	defer running.Stop()
	s := &shop{Running: running, servers: r.servers, items: 1}
	if err := s.offerMore(ctx, at.sales); err != nil {
		return nil, err
	}
	if at.more != nil {
		if err := at.more(ctx, s); err != nil {
			return nil, err
		}
	}
	res := s.crowd(8).Exactly(ctx, warmUp)
	if res.Statuses[202] < warmUp/2 {
		return nil, errors.Join(fmt.Errorf("the first %d orders were answered %v", warmUp, res.Statuses), res.Err)
	}
	embedded := len(s.Workers) == 0
	if !embedded {
		if _, err := s.all(ctx, res); err != nil {
			return nil, err
		}
	}
	if err := pause(ctx, max(min(settled, 2*r.size.idle), at.settle)); err != nil {
		return nil, err
	}
	return s.rest(ctx, r.size.idle, embedded)
}

// rest returns what the stack uses while nothing asks it: by kind of process the percentage of a core, and what is counted in a second.
func (s *shop) rest(ctx context.Context, length time.Duration, embedded bool) (map[string]float64, error) {
	before, err := s.usage(ctx)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := pause(ctx, length); err != nil {
		return nil, err
	}
	took := time.Since(start).Seconds()
	after, err := s.usage(ctx)
	if err != nil {
		return nil, err
	}
	found := after.per(took, before)
	for _, name := range restingKinds {
		found[name] = 100 * (after.cpu[name] - before.cpu[name]).Seconds() / took
	}
	if embedded {
		return map[string]float64{"API": found["API"], "API waits": found["API waits"]}, nil
	}
	return found, nil
}
