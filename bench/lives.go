package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidegate/tidegate/bench/crowd"
	"github.com/tidegate/tidegate/bench/stack"
)

// A lifeCost is the cost of one kind of call in an order's life.
type lifeCost struct {
	callCost
	InOne float64 `json:"in_one_life"` // number of these calls in one life
}

// lifeHold is the payment period of an order: longer than a turn, so that none expires.
const lifeHold = time.Hour

// feedPage is how many events one call of the feed requests.
const feedPage = 1000

// lives measures the whole life of an order: its buyer waits for the commit by a long poll and then reads the order once more, it is paid
// or cancelled, and a back office reads all events in the feed.
func (r *run) lives(ctx context.Context) error {
	if err := r.stackUp(); err != nil {
		return err
	}
	all, err := compare(r, r.size.rounds, func(st *stack.Stack) ([]lifeCost, error) { return r.lifeTurn(ctx, st) })
	if err != nil {
		return err
	}
	r.keep("lives", all.turns)
	processes := []string{"API", "worker", "Redis", "Postgres"}
	head := []string{"", "calls a life", "API µs", "worker µs", "Redis µs", "Postgres µs", "sum µs a call"}
	tab := newTable(append(head, all.heads()...)...)
	row := func(name, count string, cost func(turn []lifeCost) lifeCost) {
		cells := []string{name, count}
		for _, process := range processes {
			cells = append(cells, one(all.mean(func(t []lifeCost) float64 { return cost(t).CPU[process] })))
		}
		sum := func(t []lifeCost) float64 { return cost(t).Sum }
		tab.add(slices.Concat(cells, []string{one(all.mean(sum))}, all.quotients(sum))...)
	}
	for i, c := range all.first() {
		row(c.Call, fmt.Sprintf("%.3g", c.InOne), func(t []lifeCost) lifeCost { return t[i] })
	}
	row("a whole life", "", wholeLife)
	r.print(tab, fmt.Sprintf("Lives: %d orders with all their calls, %d connections, means of %d rounds", r.size.lives, connections,
		r.size.rounds))
	return nil
}

// wholeLife sums the cost of one order over all its calls.
func wholeLife(calls []lifeCost) lifeCost {
	all := lifeCost{callCost: callCost{CPU: map[string]float64{}}}
	for _, c := range calls {
		for process, us := range c.CPU {
			all.CPU[process] += us * c.InOne
		}
		all.Sum += c.Sum * c.InOne
	}
	return all
}

// A life is an order in progress.
type life struct{ id, user string }

// lifeTurn is one turn of one stack: one kind of call for all orders, then the next kind.
func (r *run) lifeTurn(ctx context.Context, st *stack.Stack) (costs []lifeCost, err error) {
	s, err := r.open(ctx, st, stack.Options{}, 1, lifeHold)
	if err != nil {
		return nil, err
	}
	defer s.Stop()
	n := r.size.lives
	cost := func(call string, inOne float64, of int64, do func() error) error {
		before := s.meter()
		if err := do(); err != nil {
			return fmt.Errorf("%s: %w", call, err)
		}
		costs = append(costs, lifeCost{s.cost(call, before, of), inOne})
		return nil
	}
	var placed []life
	first, err := s.lastEvent(ctx)
	if err != nil {
		return nil, err
	}
	for _, step := range []struct {
		call  string
		inOne float64
		of    int64
		do    func() error
	}{
		{"order, and a long poll until it is committed", 1, n, func() (err error) { placed, err = s.place(ctx, n); return err }},
		{"status of a committed order", 1, n, func() error {
			return s.each(ctx, s.Addrs(), placed, func(l life) []byte { return crowd.Request("GET", "/v1/orders/"+l.id, "", "X-User-ID", l.user) })
		}},
		{"payment", 0.5, n / 2, func() error {
			return s.each(ctx, []string{s.Internal()}, placed[:n/2], func(l life) []byte {
				return crowd.Request("POST", "/v1/orders/"+l.id+"/payment", `{"reference":"`+l.id+`","outcome":"captured"}`)
			})
		}},
		{"cancel, until the unit is on sale again", 0.5, n - n/2, func() error {
			err := s.each(ctx, s.Addrs(), placed[n/2:], func(l life) []byte {
				return crowd.Request("POST", "/v1/orders/"+l.id+"/cancel", "", "X-User-ID", l.user)
			})
			return errors.Join(err, s.returned(ctx))
		}},
		{"feed, all events of an order", 1, n, func() error { return s.feed(ctx, first, 2*n) }},
	} {
		if err := cost(step.call, step.inOne, step.of, step.do); err != nil {
			return nil, err
		}
	}
	return costs, nil
}

// place has n buyers place an order each and wait for the commit.
func (s *shop) place(ctx context.Context, n int64) (placed []life, err error) {
	placed = make([]life, n)
	ids := make(chan life, n)
	buyers := s.crowd(connections)
	first := s.placed
	buyers.Answered = func(i int64, a crowd.Answer, _ time.Time) {
		l := life{user: fmt.Sprintf("buyer-%x", first+i)}
		if a.Status == 202 {
			l.id = orderID(a.Body)
		}
		placed[i] = l
		ids <- l
	}
	polls := make(chan error, 1)
	go func() {
		waiting := &crowd.Crowd{Addrs: s.Addrs(), Connections: most, Request: func(int64) []byte {
			l := <-ids
			return crowd.Request("GET", "/v1/orders/"+l.id+"?wait_ms=10000&while=accepted", "", "X-User-ID", l.user)
		}}
		polls <- allOf(waiting.Exactly(ctx, n), 200, n)
	}()
	res := buyers.Exactly(ctx, n)
	if err := errors.Join(<-polls, allOf(res, 202, n)); err != nil {
		return nil, err
	}
	_, err = s.all(ctx, res)
	return placed, err
}

// each makes a call for every order, and expects status 200.
func (s *shop) each(ctx context.Context, addrs []string, orders []life, request func(life) []byte) error {
	c := &crowd.Crowd{Addrs: addrs, Connections: connections, Request: func(i int64) []byte { return request(orders[i]) }}
	return allOf(c.Exactly(ctx, int64(len(orders))), 200, int64(len(orders)))
}

func allOf(res *crowd.Result, status int, n int64) error {
	if res.Statuses[status] == n {
		return nil
	}
	return errors.Join(fmt.Errorf("%d answers should be %d, and there are %v", n, status, res.Statuses), res.Err)
}

// returned waits until no unit is being returned.
func (s *shop) returned(ctx context.Context) error {
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		var count int
		if err := s.servers.Database.QueryRow(ctx, `SELECT count(*) FROM order_returns`).Scan(&count); err != nil || count == 0 {
			return err
		}
		if time.Since(start) > commitWithin {
			return fmt.Errorf("%d units are still on their way back", count)
		}
	}
}

// lastEvent returns the number of the newest event.
func (s *shop) lastEvent(ctx context.Context) (seq int64, err error) {
	err = s.servers.Database.QueryRow(ctx, `SELECT coalesce(max(seq), 0) FROM order_events`).Scan(&seq)
	return seq, err
}

// feed reads n events after one, page by page.
func (s *shop) feed(ctx context.Context, after, n int64) error {
	cursor := fmt.Sprint(after)
	for got := int64(0); got < n; {
		status, answer, err := stack.Call(ctx, "GET",
			fmt.Sprintf("http://%s/v1/order-events?after=%s&limit=%d", s.Internal(), cursor, feedPage), "")
		if err != nil || status != 200 {
			return errors.Join(fmt.Errorf("answer %d: %.200s", status, answer), err)
		}
		var page struct {
			Items []json.RawMessage
			Next  string `json:"next_cursor"`
		}
		if err := json.Unmarshal(answer, &page); err != nil {
			return err
		}
		if len(page.Items) == 0 {
			return fmt.Errorf("it ends after %d events of %d", got, n)
		}
		got, cursor = got+int64(len(page.Items)), page.Next
	}
	return nil
}
