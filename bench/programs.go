package main

import (
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/tidegate/tidegate/bench/stack"
)

// A size is how long the suites take that start programs.
type size struct {
	rounds     int
	peak, half time.Duration
}

var sizes = map[string]size{
	"brief":    {rounds: 1, peak: 300 * time.Millisecond, half: 300 * time.Millisecond},
	"usual":    {rounds: 2, peak: 2 * time.Second, half: 2 * time.Second},
	"thorough": {rounds: 5, peak: 10 * time.Second, half: 10 * time.Second},
}

// stackUp compiles the programs and starts the servers that they run on, once.
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
	if r.scripts, err = stack.KnownScripts(r.root, strings.TrimSpace(string(asynq))); err != nil {
		return err
	}
	r.servers, err = stack.StartServers(r.t, r.fsync)
	return err
}
