package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/bench/crowd"
	"github.com/tidegate/tidegate/bench/stack"
)

// answered is one turn with a load that always gets the same answer.
type answered struct {
	Answer    string        `json:"answer"`
	PerSecond float64       `json:"per_second"`
	CPU       float64       `json:"cpu_us_of_the_server"`
	P99       time.Duration `json:"p99_ns"`
	Others    int64         `json:"other_answers"`
}

// oneOrder allows every user one order an hour.
const oneOrder = `version: 1
rules: [{name: once, match: {route: "/v1/sales/*/orders", method: POST}, subject: [user], limit: 1, window: 1h, on_store_error: closed}]
`

// refusedUsers is the number of users of each kind, who keep sending requests.
const refusedUsers = 200

var bareNames = map[string]string{"http": "bare net/http", "echo": "bare Echo"}

// refusals compares this project's refusals from memory with servers that do nothing.
func (r *run) refusals(ctx context.Context) error {
	if err := r.stackUp(); err != nil {
		return err
	}
	// The other stacks of this project share Redis and the database with the first, so only that one is measured.
	running, err := r.stacks[0].Start(ctx, r.servers, stack.Options{Rules: oneOrder, Workers: stack.None})
	if err != nil {
		return err
	}
	defer running.Stop()
	refused, err := prepareRefusals(ctx, running)
	if err != nil {
		return err
	}
	request := crowd.Request("POST", "/v1/sales/bench/orders", `{"item":"item-1"}`, "X-User-ID", "ann")
	return r.besideBare(ctx, "refusals", "Refusals", request, refused)
}

// besideBare compares answers of this project with those of servers that do nothing, to requests of the same size.
func (r *run) besideBare(ctx context.Context, name, title string, bareRequest []byte, answers []contestant) error {
	bare, err := stack.Bare(r.t, r.root+"/bench")
	if err != nil {
		return err
	}
	var rows []contestant
	for _, kind := range []string{"http", "echo"} {
		process, err := stack.StartBare(ctx, bare, kind)
		if err != nil {
			return err
		}
		defer process.Stop()
		rows = append(rows, contestant{bareNames[kind], process, 200, func(int64) []byte { return bareRequest }})
	}
	rows = append(rows, answers...)
	turns := make([][]answered, len(rows))
	for range r.size.rounds + 1 {
		for i, c := range rows {
			before := c.process.CPU()
			res := (&crowd.Crowd{Addrs: []string{c.process.Addr}, Connections: connections, Request: c.request}).Closed(ctx, r.size.turn)
			n := res.Statuses[c.status]
			all := total(res)
			turns[i] = append(turns[i], answered{
				c.name, res.PerSecond(c.status), float64((c.process.CPU() - before).Microseconds()) / float64(max(1, all)), res.Answered(99), all - n,
			})
		}
	}
	r.keep(name, turns)
	tab := newTable("", "answers/s", "÷ bare Echo (lowest–highest)", "÷ bare net/http", "CPU µs of the server", "p99", "other answers")
	rate := func(of []answered) (rates []float64) {
		for _, t := range of {
			rates = append(rates, t.PerSecond)
		}
		return rates
	}
	for i, of := range turns {
		var cpu, p99, others []float64
		for _, t := range of {
			cpu, p99, others = append(cpu, t.CPU), append(p99, float64(t.P99)), append(others, float64(t.Others))
		}
		tab.add(rows[i].name, whole(median(rate(of))), quotient(rate(of), rate(turns[1])), quotient(rate(of), rate(turns[0])),
			one(median(cpu)), short(time.Duration(median(p99))), whole(median(others)))
	}
	r.print(tab, fmt.Sprintf("%s: %d connections, %d rounds of %v", title, connections, len(turns[0]), r.size.turn))
	return nil
}

// A contestant is a server with a request that it always answers in the same way.
type contestant struct {
	name    string
	process *stack.Process
	status  int
	request func(i int64) []byte
}

// prepareRefusals creates users above their limit, a sold-out item, and banned users.
func prepareRefusals(ctx context.Context, running *stack.Running) ([]contestant, error) {
	if err := running.Offer(ctx, "bench", 2, manyUnits/2, 0); err != nil {
		return nil, err
	}
	if err := running.Offer(ctx, "gone", 1, 1, 0); err != nil {
		return nil, err
	}
	once := func(what string, n int64, request func(int64) []byte) error {
		c := &crowd.Crowd{Addrs: running.Addrs(), Connections: 1, Request: request}
		res := c.Exactly(ctx, n)
		for range 10 { // a busy machine may answer 503; repeating an accepted order is answered 202 too
			if res.Statuses[202] == n {
				return nil
			}
			res = c.Exactly(ctx, n)
		}
		if res.Statuses[202] != n {
			return errors.Join(fmt.Errorf("%s: %v", what, res.Statuses), res.Err)
		}
		return nil
	}
	denied := func(item int) func(int64) []byte {
		return func(i int64) []byte {
			return running.Order("bench", stack.Item(item), fmt.Sprintf("denied-%d", i%refusedUsers))
		}
	}
	// Each user has reached the limit with an order of another item, so that the refused request is not a repetition.
	if err := once("the orders before the denials", refusedUsers, denied(0)); err != nil {
		return nil, err
	}
	late := func(i int64) []byte {
		return running.Order("gone", stack.Item(0), fmt.Sprintf("late-%d", i%refusedUsers))
	}
	first := func(int64) []byte { return running.Order("gone", stack.Item(0), "first") }
	if err := once("the last unit", 1, first); err != nil {
		return nil, err
	}
	for i := range refusedUsers {
		if err := running.Ban(ctx, fmt.Sprintf("banned-%d", i)); err != nil {
			return nil, err
		}
	}
	banned := func(i int64) []byte {
		return running.Order("bench", stack.Item(1), fmt.Sprintf("banned-%d", i%refusedUsers))
	}
	api := running.APIs[0]
	refused := []contestant{{"denied (429)", api, 429, denied(1)}, {"sold out (409)", api, 409, late}, {"banned (403)", api, 403, banned}}
	for _, c := range refused { // from now on the process has the denial in memory
		all := &crowd.Crowd{Addrs: running.Addrs(), Connections: 1, Request: c.request}
		for start := time.Now(); ; {
			res := all.Exactly(ctx, 2*refusedUsers)
			if res.Statuses[c.status] > refusedUsers {
				break
			}
			if time.Since(start) > commitWithin || ctx.Err() != nil {
				return nil, errors.Join(fmt.Errorf("%s: answers %v instead of %d", c.name, res.Statuses, c.status), res.Err)
			}
		}
	}
	return refused, nil
}

func total(res *crowd.Result) (n int64) {
	for _, count := range res.Statuses {
		n += count
	}
	return n
}
