package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/internal/asynqkeys"

	"github.com/tidegate/tidegate/bench/crowd"
	"github.com/tidegate/tidegate/bench/stack"
)

// A shop is a running stack, with a sale if open made it.
type shop struct {
	*stack.Running
	servers *stack.Servers
	sales   int // of items items each
	items   int
	placed  int64 // number of buyers so far
	asked   int64 // orders requested
	orders  int64 // orders committed
}

// open starts a stack with a sale, and warms it up.
func (r *run) open(ctx context.Context, st *stack.Stack, o stack.Options, items int, hold time.Duration) (*shop, error) {
	running, err := st.Start(ctx, r.servers, o)
	if err != nil {
		return nil, err
	}
	s := &shop{Running: running, servers: r.servers, sales: 1, items: items}
	if err = s.Offer(ctx, saleName(0), items, manyUnits/items, hold); err == nil {
		res := s.crowd(8).Exactly(ctx, warmUp)
		if s.orders, err = s.committed(ctx, res); err == nil && res.Statuses[202] < warmUp/2 {
			err = errors.Join(fmt.Errorf("the first %d orders were answered %v", warmUp, res.Statuses), res.Err)
		}
	}
	if err != nil {
		s.Stop()
		return nil, fmt.Errorf("%s: %w", st.Name, err)
	}
	return s, nil
}

// crowd returns a crowd of new buyers, each of whom places one order.
func (s *shop) crowd(connections int) *crowd.Crowd {
	s.placed += 1 << 32
	first := s.placed
	return &crowd.Crowd{Addrs: s.Addrs(), Connections: connections, Request: func(i int64) []byte {
		return s.Order(saleName(int(i)%s.sales), stack.Item(int(i)%s.items), fmt.Sprintf("buyer-%x", first+i))
	}}
}

func saleName(n int) string { return "bench-" + strconv.Itoa(n) }

const commitWithin = 2 * time.Minute

// committed waits until the orders accepted by a crowd are in the database, and returns the number of orders there. Requests not answered
// 202 may have been accepted too, because 503 is not a refusal. The longer the expected wait, the less often it counts, because counting
// costs CPU.
func (s *shop) committed(ctx context.Context, res *crowd.Result) (count int64, err error) {
	least, unknown := s.orders+res.Statuses[202], others(res)
	s.asked += res.Statuses[202] + unknown
	last, at := s.orders, time.Now()
	for start := at; ; {
		if err := s.servers.Database.QueryRow(ctx, `SELECT count(*) FROM orders`).Scan(&count); err != nil {
			return 0, err
		}
		if count >= least && (unknown == 0 || count == last) {
			break
		}
		if time.Since(start) > commitWithin {
			return 0, fmt.Errorf("of %d orders that were accepted %d are committed", res.Statuses[202], count-s.orders)
		}
		wait := 20 * time.Millisecond
		if pace := float64(count-last) / time.Since(at).Seconds(); pace > 0 && count < least {
			wait = max(wait, min(time.Second, time.Duration(0.7*float64(least-count)/pace*float64(time.Second))))
		}
		last, at = count, time.Now()
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	if count > s.asked {
		return 0, fmt.Errorf("%d orders were asked for, and %d are committed", s.asked, count)
	}
	return count, nil
}

// commits returns when the newest order was committed, and how many transactions have committed orders since a time.
func (s *shop) commits(ctx context.Context, since time.Time) (last time.Time, count int64, err error) {
	err = s.servers.Database.QueryRow(ctx, `SELECT max(pg_xact_commit_timestamp(xmin)), count(DISTINCT xmin::text) FROM orders
		WHERE pg_xact_commit_timestamp(xmin) >= $1`, since).Scan(&last, &count)
	return last, count, err
}

// tasks returns how many tasks asynq's workers have processed.
func (s *shop) tasks(ctx context.Context) (sum int64, err error) {
	queues, err := s.servers.Redis.SMembers(ctx, asynqkeys.Queues).Result()
	for _, q := range queues {
		n, _ := s.servers.Redis.Get(ctx, asynqkeys.Key(q, "processed")).Int64() // missing: none yet
		sum += n
	}
	return sum, err
}

// A meter holds the CPU time of each kind of process.
type meter map[string]time.Duration

func (s *shop) meter() meter {
	m := meter{"generator": stack.OwnCPU()}
	for _, p := range s.APIs {
		m["API"] += p.CPU()
	}
	for _, p := range s.Workers {
		m["worker"] += p.CPU()
	}
	m["Redis"], m["Postgres"] = s.servers.CPU()
	return m
}

// since returns the microseconds for each of n by process, and their sum, which excludes the load generator's.
func (m meter) since(before meter, n int64) (by map[string]float64, sum, generator float64) {
	by = map[string]float64{}
	for name, took := range m {
		us := float64((took - before[name]).Microseconds()) / float64(max(1, n))
		if name == "generator" {
			generator = us
			continue
		}
		by[name] = us
		sum += us
	}
	return by, sum, generator
}

// A callCost is the processor time of one kind of call, measured in one turn.
type callCost struct {
	Call string             `json:"call"`
	CPU  map[string]float64 `json:"cpu_us"` // by process
	Sum  float64            `json:"cpu_us_sum"`
}

// cost returns what n calls have cost since before, each.
func (s *shop) cost(call string, before meter, n int64) callCost {
	by, sum, _ := s.meter().since(before, n)
	return callCost{call, by, sum}
}

// A usage is what a stack has used since it started: processor time, waits and Postgres' transactions by kind of process, and commands of Redis,
// also those in scripts.
type usage struct {
	cpu    meter
	counts map[string]int64 // "API waits" and so on, commands, transactions
}

func (s *shop) usage(ctx context.Context) (u usage, err error) {
	u.counts = map[string]int64{}
	for _, p := range s.APIs {
		u.counts["API waits"] += p.Waits()
	}
	for _, p := range s.Workers {
		u.counts["worker waits"] += p.Waits()
	}
	u.counts["Redis waits"], u.counts["Postgres waits"] = s.servers.Waits()
	u.cpu = s.meter()
	if u.counts["transactions"], err = s.servers.Transactions(ctx); err != nil {
		return u, err
	}
	commands, err := s.servers.Commands(ctx)
	for _, c := range commands {
		u.counts["commands"] += c.Calls
	}
	return u, err
}

// per returns the counts since before, for each of n.
func (u usage) per(n float64, before usage) map[string]float64 {
	each := map[string]float64{}
	for name, count := range u.counts {
		each[name] = float64(count-before.counts[name]) / n
	}
	return each
}

// counted are the counts of a usage, in the order of the tables.
var counted = []string{"commands", "transactions", "API waits", "worker waits", "Redis waits", "Postgres waits"}

// all waits until a crowd's orders are committed, and returns their number.
func (s *shop) all(ctx context.Context, res *crowd.Result) (n int64, err error) {
	before := s.orders
	s.orders, err = s.committed(ctx, res)
	return s.orders - before, err
}
