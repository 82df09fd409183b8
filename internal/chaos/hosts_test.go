package chaos

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
)

// How make chaos HOSTS=1 runs TestHosts:
//
//	go test ./internal/chaos -run TestHosts -v -hosts -rounds 30 -seed 1 -rate 60
var (
	onHosts    = flag.Bool("hosts", false, "rounds of TestHosts, on several hosts; needs Docker and root")
	measure    = flag.String("measure", "", "measure what one of the costly faults loses: split-brain, split-brain-and-api, lost-standby or lost-standby-and-api")
	underThree = flag.Bool("sentinel", false, "a Redis under sentinels in place of a cluster, for -faults")
	durability = flag.String("durability", "everysec", "DURABILITY on several hosts")
)

// TestHosts runs rounds on several hosts, one after the other. Without -hosts it only draws their plans, which needs neither Docker nor root.
func TestHosts(t *testing.T) {
	if !*onHosts {
		drawHostPlans(t)
		return
	}
	first := *seed
	if first == 0 {
		first = rand.Uint64N(1 << 32)
	}
	t.Logf("seed %d", first)
	plans := make([]plan, max(1, *rounds))
	for i := range plans {
		plans[i] = drawnOnHosts(t, first+uint64(i))
	}
	o := hostSettings{image: buildHosts(t), durability: *durability}
	runAll(t, plans, func(t testing.TB, dir string, p plan) *result {
		return runHostsRound(t, dir, p, roundSize{Rate: *rate, Drain: *drain, Visitors: *people}, o)
	})
}

// drawnOnHosts returns the plan that the flags define. -faults none is a round without any.
func drawnOnHosts(t *testing.T, seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, 0))
	var p plan
	var err error
	switch {
	case *measure != "":
		p, err = planNamed(costly, seed, r, *measure)
	case *named == "none":
		p = plan{Seed: seed}
	case *named != "":
		p, err = planNamed(hostFaults, seed, r, *named)
	default:
		p = newHostPlan(seed)
	}
	if err != nil {
		t.Fatal(err)
	}
	if *underThree {
		p.needs |= sentinels
	}
	return chosenOf(t, p)
}

// drawHostPlans checks that every seed draws the same plan again, and that every fault leads in its turn.
func drawHostPlans(t *testing.T) {
	for seed := range uint64(20 * len(hostFaults)) {
		p := newHostPlan(seed)
		if again := newHostPlan(seed); again.String() != p.String() || again.needs != p.needs {
			t.Fatalf("seed %d draws\n%sand then\n%s", seed, p, again)
		}
		lead := hostFaults[seed%uint64(len(hostFaults))].name
		if !slices.ContainsFunc(p.Steps, func(s step) bool { return s.Fault == lead }) || len(p.Steps) > 4 {
			t.Errorf("seed %d has no %s, or too much:\n%s", seed, lead, p)
		}
		for _, s := range p.Steps {
			if s.At < 0 || s.At > hostWave {
				t.Errorf("seed %d: %s", seed, s)
			}
		}
	}
}

// TestSlots: the examples of the specification of Redis Cluster.
func TestSlots(t *testing.T) {
	if slot := slotOf("123456789"); slot != 0x31C3 {
		t.Errorf("slot %d, want %d", slot, 0x31C3)
	}
}
