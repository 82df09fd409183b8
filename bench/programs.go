package main

import (
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/tidegate/tidegate/bench/stack"
)

// A size is the durations of the suites that start programs.
type size struct {
	rounds         int
	peak, half     time.Duration // of orders
	lives          int64
	turn           time.Duration // for refusals
	idle           time.Duration
	idleSales      int
	idleRooms      []int // at least one number
	idleSemaphores int
	overload       time.Duration // period in which buyers arrive
	growthRounds   int
	growth         time.Duration
	buyers         []int64 // who have ordered before the measurement
	visitors       int64   // of a waiting room
	places         int64   // of a large one
	apis           []int
	workers        []int
	rules          []int
	items          []int
	sales          []int
	clusterItems   []int // on a Redis Cluster
	ownQueue       bool
}

var sizes = map[string]size{
	"brief": {
		rounds: 1, peak: 300 * time.Millisecond, half: 300 * time.Millisecond, lives: 100, turn: 100 * time.Millisecond,
		idle: 200 * time.Millisecond, idleSales: 3, idleRooms: []int{3}, idleSemaphores: 3,
		overload: 300 * time.Millisecond, growthRounds: 1, growth: 100 * time.Millisecond, apis: []int{2}, workers: []int{2}, rules: []int{20},
		items: []int{10},
		sales: []int{2}, clusterItems: []int{3}, ownQueue: true, visitors: 100, places: 1000,
	},
	"usual": {
		rounds: 2, peak: 2 * time.Second, half: 2 * time.Second, lives: 6000, turn: time.Second, idle: 5 * time.Second, idleSales: 1000,
		idleRooms: []int{100, 1000}, idleSemaphores: 1000,
		overload: 3 * time.Second, growthRounds: 1, growth: time.Second, buyers: []int64{20_000}, apis: []int{2, 4}, workers: []int{2, 4},
		rules: []int{200}, items: []int{100, 1000},
		sales: []int{100}, clusterItems: []int{1, 100}, ownQueue: true, visitors: 10_000, places: 1_000_000,
	},
	"thorough": {
		rounds: 5, peak: 10 * time.Second, half: 10 * time.Second, lives: 40_000, turn: 3 * time.Second, idle: 30 * time.Second,
		idleSales: 10_000, idleRooms: []int{100, 1000}, idleSemaphores: 1000,
		overload: 10 * time.Second, growthRounds: 3, growth: 3 * time.Second, buyers: []int64{1000, 100_000, 1_000_000}, apis: []int{2, 4},
		workers: []int{2, 4},
		rules:   []int{20, 200}, items: []int{10, 100, 1000}, sales: []int{10, 100, 1000, 10_000}, clusterItems: []int{1, 100, 1000},
		ownQueue: true, visitors: 10_000, places: 1_000_000,
	},
}

// stackUp compiles the programs and starts their servers, once.
func (r *run) stackUp() (err error) {
	if r.servers != nil {
		return nil
	}
	ours, err := stack.Tidegate(r.t, "tidegate", r.root)
	if err != nil {
		return err
	}
	handmade, tuned, err := stack.Handmade(r.t, r.root+"/bench")
	if err != nil {
		return err
	}
	if r.floor, err = stack.Floor(r.t, r.root+"/bench"); err != nil {
		return err
	}
	r.stacks = []*stack.Stack{ours, handmade}
	if r.tuned {
		r.stacks = append(r.stacks, tuned)
	}
	if r.other != "" {
		other, err := stack.Tidegate(r.t, "other", r.other)
		if err != nil {
			return err
		}
		r.stacks = append(r.stacks, other)
	}
	asynq, err := exec.CommandContext(r.t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/hibiken/asynq").Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	if r.scripts, err = stack.KnownScripts(strings.TrimSpace(string(asynq))); err != nil {
		return err
	}
	r.servers, err = stack.StartServers(r.t, r.fsync)
	return err
}
