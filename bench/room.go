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

const (
	roomPath  = "/v1/rooms/hall"
	roomTurns = 10 // in a round
)

// A roomCall is how one kind of call went in a turn.
type roomCall struct {
	callCost
	Calls         int64   `json:"calls"`
	Seconds       float64 `json:"seconds"`
	P50, P95, P99 float64 // ms
}

// compareRooms has a crowd join a room of each stack, turn by turn. All stacks run at once, each on servers of its own: turns can be short,
// and only the first follows a start.
func (r *run) compareRooms(ctx context.Context) (all comparison[[]roomCall], err error) {
	shops := make(map[*stack.Stack]*shop)
	for _, st := range r.own() {
		servers, err := stack.StartServers(r.t, r.fsync) // not r.servers, whose Postgres would use the log files of earlier suites again
		if err != nil {
			return all, err
		}
		s, err := openRoom(ctx, st, servers)
		if err != nil {
			return all, err
		}
		defer s.Stop()
		shops[st] = s
	}
	return compare(r, roomTurns*r.size.rounds, func(st *stack.Stack) ([]roomCall, error) {
		calls, _, err := r.roomTurn(ctx, shops[st])
		return calls, err
	})
}

// rooms measures how fast a waiting room takes and answers a crowd.
func (r *run) rooms(ctx context.Context) error {
	if err := r.stackUp(); err != nil {
		return err
	}
	all, err := r.compareRooms(ctx)
	if err != nil {
		return err
	}
	r.keep("room", all.turns)
	head := []string{"", "calls", "s", "calls/s", "p50 ms", "p95 ms", "p99 ms", "API µs a call", "Postgres µs a call", "sum µs a call"}
	tab := newTable(append(head, all.heads()...)...)
	for i, call := range all.first() {
		figure := func(value func(roomCall) float64) float64 {
			return all.mean(func(t []roomCall) float64 { return value(t[i]) })
		}
		took := figure(func(c roomCall) float64 { return c.Seconds })
		cells := []string{call.Call, whole(float64(call.Calls)), fmt.Sprintf("%.2f", took), whole(float64(call.Calls) / took)}
		for _, value := range []func(roomCall) float64{
			func(c roomCall) float64 { return c.P50 }, func(c roomCall) float64 { return c.P95 }, func(c roomCall) float64 { return c.P99 },
			func(c roomCall) float64 { return c.CPU["API"] }, func(c roomCall) float64 { return c.CPU["Postgres"] },
			func(c roomCall) float64 { return c.Sum },
		} {
			cells = append(cells, one(figure(value)))
		}
		tab.add(append(cells, all.quotients(func(t []roomCall) float64 { return t[i].Sum })...)...)
	}
	sum := all.mean(func(t []roomCall) (seconds float64) {
		for _, c := range t {
			seconds += c.Seconds
		}
		return seconds
	})
	tab.add(append([]string{"all", "", fmt.Sprintf("%.2f", sum)}, make([]string, len(head)-3+len(all.heads()))...)...)
	r.print(tab, fmt.Sprintf("A waiting room that %d visitors join in each turn, over %d connections to %d APIs, means of %d turns",
		r.size.visitors, roomConnections, roomAPIs, roomTurns*r.size.rounds))
	s, err := openRoom(ctx, r.stacks[0], r.servers)
	if err != nil {
		return err
	}
	defer s.Stop()
	_, read, err := r.roomTurn(ctx, s)
	if err != nil {
		return err
	}
	status := contestant{"status of a place (200)", s.APIs[0], http.StatusOK, func(i int64) []byte { return read(i % r.size.visitors) }}
	if err := r.besideBare(ctx, "room status", "The status of somebody who waits, with the token", read(0), []contestant{status}); err != nil {
		return err
	}
	s.Stop()
	return r.largeRoom(ctx)
}

// openRoom starts a stack and makes a room that admits no visitor.
func openRoom(ctx context.Context, st *stack.Stack, servers *stack.Servers) (*shop, error) {
	running, err := st.Start(ctx, servers, stack.Options{APIs: roomAPIs, Workers: stack.None})
	if err != nil {
		return nil, err
	}
	starts := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	if err := running.Put(ctx, roomPath, fmt.Sprintf(`{"mode":"fifo","starts_at":%q}`, starts)); err != nil {
		running.Stop()
		return nil, err
	}
	return &shop{Running: running, servers: servers}, nil
}

// roomTurn sends new visitors to the room. It also returns the request with which a visitor reads the place.
func (r *run) roomTurn(ctx context.Context, s *shop) (calls []roomCall, read func(i int64) []byte, err error) {
	const path = roomPath + "/place"
	s.placed += 1 << 32
	first := s.placed
	tokens := make([]string, r.size.visitors)
	send := func(call string, want int, n int64, request func(i int64) []byte, answered func(i int64, a crowd.Answer, at time.Time)) error {
		c := &crowd.Crowd{Addrs: s.Addrs(), Connections: roomConnections, Request: request, Answered: answered}
		before := s.meter()
		res := c.Exactly(ctx, n)
		if res.Statuses[want] != n {
			return errors.Join(fmt.Errorf("%s: %d calls were answered %v, want %d", call, n, res.Statuses, want), res.Err)
		}
		cost := s.cost(call, before, n)
		ms := func(q float64) float64 { return float64(res.Answered(q)) / float64(time.Millisecond) }
		calls = append(calls, roomCall{cost, n, res.Took.Seconds(), ms(50), ms(95), ms(99)})
		return nil
	}
	user := func(i int64) string { return fmt.Sprintf("visitor-%x", first+i) }
	join := func(i int64) []byte { return crowd.Request(http.MethodPost, path, "{}", "X-User-ID", user(i)) }
	read = func(i int64) []byte {
		return crowd.Request(http.MethodGet, path, "", "X-User-ID", user(i), "X-Place-Token", tokens[i])
	}
	if err := send("join", http.StatusCreated, r.size.visitors, join,
		func(i int64, a crowd.Answer, _ time.Time) { tokens[i] = tokenIn(a.Body) }); err != nil {
		return nil, nil, err
	}
	if err := send("read", http.StatusOK, r.size.visitors, read, nil); err != nil {
		return nil, nil, err
	}
	again := func(i int64) []byte { return join(i * roomAgain) }
	err = send("join again", http.StatusOK, max(1, r.size.visitors/roomAgain), again, nil)
	return calls, read, err
}

// tokenIn returns the token of a place; empty: there is none.
func tokenIn(place []byte) string {
	_, rest, _ := bytes.Cut(place, []byte(`"token":"`))
	token, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(token)
}
