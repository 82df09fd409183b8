package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/periodic"
)

// leaderSteps are the steps at which the leader of a recovery can be stopped, in their order. Package orders/internal/failpoint
// defines them.
var leaderSteps = []string{
	"leader_raises", "leader_raised", "leader_seals", "leader_waits", "leader_ends_hand_over", "leader_loads", "leader_reserves_late",
	"leader_opens", "leader_opened",
}

// reachTime is how long a step stays armed: a recovery that waits for a frozen process, or has to be retried, takes several
// seconds.
const reachTime = 15 * time.Second

// steps arms steps of recoveries. All processes read its folder. Safe for concurrent use.
type steps struct {
	dir string

	mu      sync.Mutex
	reached map[string]int // how often a leader was stopped, by fault and step; guarded by mu
}

// arm makes the next process that reaches a step stop there; how is a text that package failpoint defines.
func (s *steps) arm(step, how string) error {
	if claims, err := filepath.Glob(filepath.Join(s.dir, step+".*")); err != nil || len(claims) > 0 {
		return errors.Join(err, errNothingThere) // the previous claim is still being handled
	}
	f, err := os.CreateTemp(s.dir, ".arm-") // a process that finds the step's file must find it complete
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(how)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	err = os.Link(f.Name(), filepath.Join(s.dir, step))
	if errors.Is(err, os.ErrExist) {
		return errNothingThere // already armed
	}
	return err
}

// await waits until a process stops at the armed step, and returns its pid, or 0 if none did within reachTime; then the step is
// disarmed.
func (s *steps) await(ctx context.Context, fault, step string) (pid int) {
	for until := time.Now().Add(reachTime); ; {
		armed := !time.Now().After(until) && periodic.Pause(ctx, 5*time.Millisecond)
		if !armed {
			_ = os.Remove(filepath.Join(s.dir, step)) // unless it was claimed just now
		}
		claims, _ := filepath.Glob(filepath.Join(s.dir, step+".*")) // the pattern is well formed
		switch {
		case len(claims) > 0:
			_ = os.Remove(claims[0])
			pid, _ = strconv.Atoi(strings.TrimPrefix(filepath.Ext(claims[0]), "."))
			s.mu.Lock()
			defer s.mu.Unlock()
			s.reached[fault+" at "+step]++
			return pid
		case !armed:
			return 0
		}
	}
}

// flushedLeader flushes Redis, and makes the leader of the following recovery stop at a step. It calls then with the leader's
// pid, or with 0 if none reached the step.
func (c *cluster) flushedLeader(ctx context.Context, fault string, p params, how string, then func(pid int)) error {
	if err := c.steps.arm(p.Kind, how); err != nil {
		return err
	}
	began := time.Now()
	err := flush(ctx, c, p)
	c.healing.Go(func() {
		defer func() { c.openings.effect(began, time.Now()) }()
		pid := c.steps.await(ctx, fault, p.Kind)
		if pid != 0 {
			c.t.Logf("%s: %s stopped at %s", fault, c.nameOf(pid), p.Kind)
		}
		then(pid)
	})
	return err
}

// nameOf returns the name of a process of the cluster.
func (c *cluster) nameOf(pid int) string {
	for _, n := range c.nodes() {
		if n.is(pid) {
			return n.name
		}
	}
	return fmt.Sprintf("process %d, which has ended,", pid)
}
