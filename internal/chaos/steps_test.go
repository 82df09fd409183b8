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
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/judge"
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

// TestSteps: a step is armed once, by one fault, until a process has claimed it or the round is over.
func TestSteps(t *testing.T) {
	s := steps{dir: t.TempDir(), reached: make(map[string]int)}
	path := filepath.Join(s.dir, "leader_opens")
	must(t, s.arm("leader_opens", "freeze"))
	if err := s.arm("leader_opens", "stall 1s"); !errors.Is(err, errNothingThere) {
		t.Errorf("armed twice: %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "freeze" {
		t.Errorf("%q, %v", text, err)
	}
	must(t, os.Rename(path, path+".4711"))
	if err := s.arm("leader_opens", "stall 1s"); !errors.Is(err, errNothingThere) {
		t.Errorf("armed before the one before was seen: %v", err)
	}
	if pid := s.await(t.Context(), "freeze-leader", "leader_opens"); pid != 4711 || s.reached["freeze-leader at leader_opens"] != 1 {
		t.Errorf("pid %d, reached %v", pid, s.reached)
	}
	must(t, s.arm("leader_opens", "stall 1s"))
	over, end := context.WithCancel(t.Context())
	end()
	if pid := s.await(over, "freeze-leader", "leader_opens"); pid != 0 || len(s.reached) != 1 {
		t.Errorf("pid %d, reached %v", pid, s.reached)
	}
	if left, err := os.ReadDir(s.dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestStopsThatExcuse: only a long stop while a sale was lost is an excuse.
func TestStopsThatExcuse(t *testing.T) {
	start := time.Now()
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	stop := func(api int, from, until float64) judge.Stop {
		return judge.Stop{API: api, From: at(from), Until: at(until)}
	}
	for _, c := range []struct {
		name   string
		stops  []judge.Stop
		losses []float64
		want   int
	}{
		{"nothing", nil, []float64{1}, 0},
		{"long, and a loss", []judge.Stop{stop(0, 1, 8)}, []float64{2}, 1},
		{"long, and no loss", []judge.Stop{stop(0, 10, 18)}, []float64{2}, 0},
		{"too short", []judge.Stop{stop(0, 1, 4)}, []float64{2}, 0},
		{"two that are one", []judge.Stop{stop(0, 4.5, 8), stop(0, 1, 4)}, []float64{2}, 1},
		{"one within the other", []judge.Stop{stop(0, 1, 8), stop(0, 2, 3)}, []float64{7}, 1},
		{"two with a pause", []judge.Stop{stop(0, 1, 4), stop(0, 6, 9)}, []float64{2}, 0},
		{"two APIs", []judge.Stop{stop(0, 1, 4), stop(1, 4, 7)}, []float64{2}, 0},
	} {
		var l late
		for _, s := range c.stops {
			l.stop(s)
		}
		for _, s := range c.losses {
			l.loss(at(s))
		}
		if got := l.all(); len(got) != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
