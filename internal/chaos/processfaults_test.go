package chaos

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/internal/testenv"
)

// programKinds are the kinds of faults of one process.
var programKinds = []string{"api", "worker"}

// clockKinds are the program and the shift of its clock.
var clockKinds = []string{"api+1h", "api-1h", "api+9d", "api-9d", "worker+1h", "worker-1h", "worker+9d", "worker-9d"}

// clockShift returns the shift of one of clockKinds.
func clockShift(kind string) time.Duration {
	shift := time.Hour
	if strings.HasSuffix(kind, "9d") {
		shift = 9 * 24 * time.Hour
	}
	if strings.Contains(kind, "-") {
		shift = -shift
	}
	return shift
}

// process returns the target of a fault whose kinds begin with a program.
func (c *cluster) process(p params) *node {
	if strings.HasPrefix(p.Kind, "worker") {
		return c.worker(p)
	}
	return c.api(p)
}

// moveClock shifts the wall clock of a running process, and checks that it did.
func moveClock(ctx context.Context, c *cluster, p params) error {
	n, shift := c.process(p), clockShift(p.Kind)
	before, err := n.now(ctx)
	if err != nil {
		return errNothingThere // it is down or frozen
	}
	c.clocksWrong = true
	if err := n.moveClock(shift); err != nil {
		return err
	}
	after, err := n.now(ctx)
	if err != nil {
		return errNothingThere
	}
	if moved := after.Sub(before); (moved - shift).Abs() > time.Minute {
		return fmt.Errorf("the clock of %s moved by %v instead of %v", n.name, moved, shift)
	}
	return nil
}

// blockLog lets a process write nothing to its log, and flushes Redis, so that it has to take part in a recovery.
func blockLog(ctx context.Context, c *cluster, p params) error {
	if err := c.process(p).log.block(); err != nil {
		return err
	}
	return flush(ctx, c, p)
}

// Kinds of foreign databases.
const (
	foreignEmpty = "empty" // an API with another, empty database
	foreignClone = "clone" // an API and a worker with a copy of the database
)

// startForeign starts programs with the same Redis and namespace, and another database. They must refuse to work until they are stopped.
func startForeign(ctx context.Context, c *cluster, p params) error {
	var database string
	if p.Kind == foreignClone {
		database = testenv.Clone(c.t, c.database)
	} else {
		database = testenv.Postgres(c.t)
	}
	c.foreigners++
	env := append(slices.Clone(c.common), "DATABASE_URL="+database+"&pool_max_conns=8")
	public, internal, probes := freeAddr(), freeAddr(), freeAddr()
	foreign := []*node{c.foreign("api", internal, append(env, "LISTEN="+public, "INTERNAL_LISTEN="+internal))}
	if p.Kind == foreignClone {
		foreign = append(foreign, c.foreign("worker", probes, append(env, "WORKER_LISTEN="+probes)))
	}
	number := c.foreigners
	c.healing.Go(func() {
		until, cancel := context.WithTimeout(ctx, p.For)
		defer cancel()
		for i := 0; periodic.Pause(until, 100*time.Millisecond); i++ {
			c.refused.order(until, "http://"+public, number, i)
			for _, n := range foreign {
				c.refused.ready(until, n)
			}
		}
		for _, n := range foreign {
			n.close()
		}
	})
	return nil
}

func (c *cluster) foreign(program, probes string, env []string) *node {
	n, err := newNode(c.ctx, c.dir, fmt.Sprintf("foreign-%s-%d", program, c.foreigners), c.program(program), "http://"+probes+"/readyz", env...)
	c.must(err)
	c.t.Cleanup(n.close)
	return n
}

// refusals checks that programs with a foreign database take no orders. Safe for concurrent use.
type refusals struct {
	mu    sync.Mutex
	found breaches // guarded by mu
}

func (r *refusals) wrong(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found.wrong(format, args...)
}

// findings returns what they did.
func (r *refusals) findings() breaches {
	r.mu.Lock()
	defer r.mu.Unlock()
	return breaches{"foreign", "a process with a foreign database worked", r.found.Count, r.found.Examples}
}

// order sends an order to a foreign API, whose only correct response is that it is unavailable.
func (r *refusals) order(ctx context.Context, public string, number, i int) {
	buyer := fmt.Sprintf("%sforeign-%d-%d", ourBuyers, number, i)
	a, err := sendOrder(ctx, public, item, buyer, buyer)
	if err == nil && a.StatusCode != http.StatusServiceUnavailable {
		r.wrong("an order was answered with %d: %s", a.StatusCode, strings.TrimSpace(string(a.Body[:min(len(a.Body), 120)])))
	}
}

// ready checks that a foreign process is not ready.
func (r *refusals) ready(ctx context.Context, n *node) {
	attempt, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if n.ready(attempt) == nil {
		r.wrong("%s was ready", n.name)
	}
}
