package chaos

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/rehearse"
)

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
	stop := func(api int, from, until float64) rehearse.Stop {
		return rehearse.Stop{API: api, From: at(from), Until: at(until)}
	}
	for _, c := range []struct {
		name   string
		stops  []rehearse.Stop
		losses []float64
		want   int
	}{
		{"nothing", nil, []float64{1}, 0},
		{"long, and a loss", []rehearse.Stop{stop(0, 1, 8)}, []float64{2}, 1},
		{"long, and no loss", []rehearse.Stop{stop(0, 10, 18)}, []float64{2}, 0},
		{"too short", []rehearse.Stop{stop(0, 1, 4)}, []float64{2}, 0},
		{"two that are one", []rehearse.Stop{stop(0, 4.5, 8), stop(0, 1, 4)}, []float64{2}, 1},
		{"one within the other", []rehearse.Stop{stop(0, 1, 8), stop(0, 2, 3)}, []float64{7}, 1},
		{"two with a pause", []rehearse.Stop{stop(0, 1, 4), stop(0, 6, 9)}, []float64{2}, 0},
		{"two APIs", []rehearse.Stop{stop(0, 1, 4), stop(1, 4, 7)}, []float64{2}, 0},
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
