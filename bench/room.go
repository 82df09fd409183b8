package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tidegate/tidegate/bench/crowd"
	"github.com/tidegate/tidegate/bench/stack"
)

// The case that NudgeOn publishes of its waiting room: visitors join and read their place, and one of ten joins again, over 32
// connections to four processes.
const (
	roomAPIs        = 4
	roomConnections = 32
	roomAgain       = 10
)

// roomCalls are the calls of the case, in the order in which the visitors make them.
var roomCalls = []string{"join", "read", "join again"}

// A roomCall is how one kind of call went in a round.
type roomCall struct {
	Call          string  `json:"call"`
	Calls         int64   `json:"calls"`
	Seconds       float64 `json:"seconds"`
	P50, P95, P99 float64 // ms
}

// rooms measures how fast a waiting room takes and answers a crowd.
func (r *run) rooms(ctx context.Context) error {
	if err := r.stackUp(); err != nil {
		return err
	}
	running, err := r.stacks[0].Start(ctx, r.servers, stack.Options{APIs: roomAPIs, Workers: stack.None})
	if err != nil {
		return err
	}
	defer running.Stop()
	var all [][]roomCall
	var read func(i int64) []byte
	for n := range r.size.rounds {
		calls, request, err := r.roomTurn(ctx, running, fmt.Sprintf("hall-%d", n))
		if err != nil {
			return err
		}
		all, read = append(all, calls), request
	}
	r.keep("room", all)
	tab := newTable("", "calls", "s", "calls/s", "p50 ms", "p95 ms", "p99 ms")
	of := func(i int, value func(roomCall) float64) float64 {
		var values []float64
		for _, calls := range all {
			values = append(values, value(calls[i]))
		}
		return median(values)
	}
	seconds := func(c roomCall) float64 { return c.Seconds }
	for i, call := range roomCalls {
		calls, took := float64(all[0][i].Calls), of(i, seconds)
		tab.add(call, whole(calls), fmt.Sprintf("%.2f", took), whole(calls/took), one(of(i, func(c roomCall) float64 { return c.P50 })),
			one(of(i, func(c roomCall) float64 { return c.P95 })), one(of(i, func(c roomCall) float64 { return c.P99 })))
	}
	var sums []float64
	for _, calls := range all {
		sum := 0.0
		for _, c := range calls {
			sum += c.Seconds
		}
		sums = append(sums, sum)
	}
	tab.add("all", "", fmt.Sprintf("%.2f", median(sums)), "", "", "", "")
	r.print(tab, fmt.Sprintf("A waiting room of %d visitors, over %d connections to %d APIs, %d rounds", r.size.visitors, roomConnections,
		roomAPIs, r.size.rounds))
	status := contestant{"status of a place (200)", running.APIs[0], http.StatusOK, func(i int64) []byte { return read(i % r.size.visitors) }}
	if err := r.besideBare(ctx, "room status", "The status of somebody who waits, with the token", read(0), []contestant{status}); err != nil {
		return err
	}
	running.Stop()
	return r.largeRoom(ctx)
}

// roomTurn makes a room that admits no visitor, and sends the visitors. It also returns the request with which a visitor reads the place.
func (r *run) roomTurn(ctx context.Context, running *stack.Running, name string) (calls []roomCall, read func(i int64) []byte, err error) {
	path := "/v1/rooms/" + name
	starts := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	status, answer, err := stack.Call(ctx, http.MethodPut, "http://"+running.Internal()+path,
		fmt.Sprintf(`{"mode":"fifo","starts_at":%q}`, starts))
	if err != nil || status != http.StatusCreated {
		return nil, nil, errors.Join(fmt.Errorf("PUT %s: %d %s", path, status, answer), err)
	}
	tokens := make([]string, r.size.visitors)
	send := func(call string, want int, n int64, request func(i int64) []byte,
		answered func(i int64, a crowd.Answer, at time.Time),
	) (roomCall, error) {
		c := &crowd.Crowd{Addrs: running.Addrs(), Connections: roomConnections, Request: request, Answered: answered}
		res := c.Exactly(ctx, n)
		if res.Statuses[want] != n {
			return roomCall{}, errors.Join(fmt.Errorf("%s: %d calls were answered %v, want %d", call, n, res.Statuses, want), res.Err)
		}
		ms := func(q float64) float64 { return float64(res.Answered(q)) / float64(time.Millisecond) }
		return roomCall{call, n, res.Took.Seconds(), ms(50), ms(95), ms(99)}, nil
	}
	user := func(i int64) string { return fmt.Sprintf("visitor-%d", i) }
	join := func(i int64) []byte { return crowd.Request(http.MethodPost, path+"/place", "{}", "X-User-ID", user(i)) }
	read = func(i int64) []byte {
		return crowd.Request(http.MethodGet, path+"/place", "", "X-User-ID", user(i), "X-Place-Token", tokens[i])
	}
	calls = make([]roomCall, len(roomCalls))
	if calls[0], err = send(roomCalls[0], http.StatusCreated, r.size.visitors, join,
		func(i int64, a crowd.Answer, _ time.Time) { tokens[i] = tokenIn(a.Body) }); err != nil {
		return nil, nil, err
	}
	if calls[1], err = send(roomCalls[1], http.StatusOK, r.size.visitors, read, nil); err != nil {
		return nil, nil, err
	}
	calls[2], err = send(roomCalls[2], http.StatusOK, max(1, r.size.visitors/roomAgain), func(i int64) []byte { return join(i * roomAgain) },
		nil)
	return calls, read, err
}

// tokenIn returns the token of a place; empty: there is none.
func tokenIn(place []byte) string {
	_, rest, _ := bytes.Cut(place, []byte(`"token":"`))
	token, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(token)
}
