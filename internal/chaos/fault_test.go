package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// fault is one way to break a cluster.
type fault struct {
	name   string
	needs  needs
	takes  takes    // which copy of an order it destroys
	kinds  []string // of which one is drawn, or given as =kind: a step of a recovery, a key, a command
	aside  bool     // it must not close the sale while it lasts
	clocks bool     // it needs programs whose clock can be shifted
	costs  []string // invariants that it may break: the loss is measured and is no failure

	// draw chooses the parameters, the only difference between two injections.
	draw func(r *rand.Rand) params
	// prepare runs params.Before ahead of inject; nil: nothing to prepare.
	prepare func(c *cluster) error
	inject  func(ctx context.Context, c *cluster, p params) error
	// heal runs params.For after inject, in its own goroutine; nil: nothing to heal.
	heal func(c *cluster, p params)
}

// takes is the copy of uncommitted orders that a fault destroys.
type takes string

// The copies.
const (
	nothing takes = ""
	anAPI   takes = "an API's"
	redises takes = "Redis'"
)

// params are the parameters of a fault, drawn from the seed. Zero means that the fault has no such parameter.
type params struct {
	Target    int           `json:"target,omitempty"` // which API or worker, from 1
	Failpoint string        `json:"failpoint,omitempty"`
	Hit       int           `json:"hit,omitempty"`  // number of the hit that kills the process
	Kind      string        `json:"kind,omitempty"` // one of the fault's kinds
	For       time.Duration `json:"for_ns,omitempty"`
	Clock     time.Duration `json:"clock_ns,omitempty"`  // shift of the clock
	Before    time.Duration `json:"before_ns,omitempty"` // age of the state that the fault restores
}

func (p params) String() string {
	var parts []string
	if p.Target > 0 {
		parts = append(parts, fmt.Sprintf("target=%d", p.Target))
	}
	if p.Failpoint != "" {
		parts = append(parts, "failpoint="+p.failpoint())
	}
	if p.Kind != "" {
		parts = append(parts, "kind="+p.Kind)
	}
	if p.For > 0 {
		parts = append(parts, "for="+p.For.String())
	}
	if p.Clock != 0 {
		parts = append(parts, "clock="+p.Clock.String())
	}
	if p.Before > 0 {
		parts = append(parts, "before="+p.Before.String())
	}
	return strings.Join(parts, " ")
}

// failpoint returns name:hit, or "".
func (p params) failpoint() string {
	if p.Failpoint == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.Failpoint, p.Hit)
}

// between draws a duration, to the millisecond.
func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64((to-from)/time.Millisecond)+1))*time.Millisecond
}

func one(r *rand.Rand) int { return 1 + r.IntN(2) }
