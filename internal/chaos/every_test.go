package chaos

import (
	"math/rand/v2"
	"testing"
)

// each names every fault once, in as few rounds as there are kinds of Redis, and one more.
var each = [][]string{
	{
		"failover", "freeze-worker", "kill-api", "duplicate-tasks", "cut-postgres", "hold-commits", "flush-decisions", "worker-at-before_ack", "flushall-frozen-api-short",
	},
	{
		"kill-redis-always", "redis-restores-snapshot", "api-at-after_reserve", "kill-worker", "drop-postgres-replies", "delayed-tasks", "freeze-api",
	},
	{
		"kill-redis-everysec", "redis-loses-last-second", "api-at-before_answer", "worker-at-between_statements", "cut-redis", "api-clock-off", "kill-postgres",
	},
	{
		"flushall", "flushall-frozen-api-long", "redis-starts-empty", "drop-redis-replies", "worker-at-after_commit", "worker-clock-off", "freeze-all-workers", "flush-queue",
	},
}

// TestEveryFault is the short run that is part of all tests: fixed seeds, every fault once, less than three minutes.
func TestEveryFault(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	var plans []plan
	met := make(map[string]int)
	for i, names := range each {
		seed := uint64(i + 1)
		var chosen []*fault
		for _, name := range names {
			met[name]++
			chosen = append(chosen, faultNamed(name))
		}
		plans = append(plans, planOf(seed, rand.New(rand.NewPCG(seed, 0)), chosen...))
	}
	for _, f := range faults { // those that make others worse come besides
		if met[f.name] != 1 {
			t.Errorf("fault %s stands in %d rounds, want one", f.name, met[f.name])
		}
	}
	runAll(t, plans)
}
