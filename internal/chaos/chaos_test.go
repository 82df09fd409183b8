package chaos

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
)

// How make chaos runs TestChaos:
//
//	go test ./internal/chaos -run TestChaos -v -rounds 50 -seed 1 -parallel 3
var (
	rounds  = flag.Int("rounds", 0, "rounds of TestChaos; 0 skips it")
	seed    = flag.Uint64("seed", 0, "seed of the first round, the next ones follow; 0 draws one")
	named   = flag.String("faults", "", "faults to inject instead of those that the seed draws, as in hold-commits@3s~2s,kill-api#1,flushall")
	only    = flag.String("only", "", "numbers of the plan's lines to carry out")
	shrinks = flag.Bool("shrink", false, "run a broken round again with ever fewer faults")
	doubled = flag.Bool("double", false, "take both copies of orders, and count the loss")
	people  = flag.Int("visitors", 0, "visitors who go through a waiting room to another sale meanwhile")
	rate    = flag.Int("rate", 200, "new buyers per second; there are four units for each")
	drain   = flag.Duration("drain", 3*time.Minute, "how long a round may take to settle when everything is healed")
	reopen  = flag.Duration("reopen", 10*time.Second, "how long a sale may stay closed after the end of a fault")
	report  = flag.String("report", "", "file for the results as JSON")
	keep    = flag.String("keep", filepath.Join(os.TempDir(), "tidegate-chaos"), "folder for histories and logs of broken rounds")
)

func TestMain(m *testing.M) {
	// A round mostly waits: with only two at once, on two processors, the test would take twice as long.
	testenv.AtOnce(4)
	os.Exit(testenv.Main(m))
}

// TestChaos runs rounds with consecutive seeds, or without -rounds some faults once, with SLOW=1 every fault. Each line that it prints for a broken
// round repeats exactly that round.
func TestChaos(t *testing.T) {
	if *rounds == 0 {
		planned(t)
		return
	}
	first := *seed
	if first == 0 {
		first = rand.Uint64N(1 << 32)
	}
	t.Logf("seed %d", first)
	plans := make([]plan, *rounds)
	for i := range plans {
		plans[i] = drawn(t, first+uint64(i))
	}
	runAll(t, plans, onThisMachine(t, plans, roundSize{Rate: *rate, Drain: *drain, Reopen: *reopen, Visitors: *people}))
}

// drawn returns the plan that the flags define.
func drawn(t *testing.T, seed uint64) plan {
	p := newPlan(seed)
	switch r := rand.New(rand.NewPCG(seed, 0)); {
	case *doubled:
		p = planOf(seed, r, &double)
	case *named != "":
		var err error
		if p, err = planNamed(faults, seed, r, *named); err != nil {
			t.Fatalf("-faults: %v", err)
		}
	}
	return chosenOf(t, p)
}

// chosenOf returns the lines of a plan that the flags choose.
func chosenOf(t *testing.T, p plan) plan {
	if *only != "" {
		var lines []int
		for text := range strings.SplitSeq(*only, ",") {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatalf("-only: %v", err)
			}
			lines = append(lines, n)
		}
		p = p.only(lines)
	}
	return p
}

// runner runs one round; dir is the folder of its data.
type runner func(t testing.TB, dir string, p plan) *result

// onThisMachine builds the programs for plans, and runs rounds with all processes on this machine.
func onThisMachine(t *testing.T, plans []plan, size roundSize) runner {
	bin, err := programs(t.Context(), t.TempDir(), slices.ContainsFunc(plans, plan.shiftsClocks))
	if err != nil {
		t.Fatal(err)
	}
	return func(t testing.TB, dir string, p plan) *result { return runRound(t, bin, dir, p, size) }
}

// runAll runs each plan as a subtest, with the parallelism of -parallel, and returns the sum.
func runAll(t *testing.T, plans []plan, run runner) *summary {
	var (
		mu      sync.Mutex
		results []*result
	)
	t.Run("rounds", func(t *testing.T) {
		for _, p := range plans {
			t.Run(fmt.Sprint(p.Seed), func(t *testing.T) {
				t.Parallel()
				res := try(t, "round", p, run)
				mu.Lock()
				results = append(results, res)
				mu.Unlock()
				fmt.Println(res) // while the others run
				if res.ok() {
					return
				}
				for _, b := range res.Breaches {
					t.Errorf("%s", b)
				}
				t.Errorf("make chaos ROUNDS=1 SEED=%d%s repeats the round, and with SHRINK=1 finds the faults that it takes", p.Seed, options())
				if *shrinks {
					p = shrink(p, func(i int, p plan) bool { return try(t, fmt.Sprintf("without-%d", i), p, run).ok() })
					t.Errorf("it takes no more than:\n%s", p)
				}
			})
		}
	})
	s := sum(results)
	fmt.Print(s)
	if *report != "" {
		text, err := json.MarshalIndent(s, "", "  ")
		if err == nil {
			err = os.WriteFile(*report, text, 0o600)
		}
		if err != nil {
			t.Error(err)
		}
	}
	return s
}

// try runs a plan as a separate subtest, so that everything it started is stopped afterwards. The data of a broken round is
// kept.
func try(t *testing.T, name string, p plan, run runner) *result {
	res := newResult(p)
	res.breach("harness", "the round did not come to its end")
	t.Run(name, func(t *testing.T) {
		dir := filepath.Join(*keep, fmt.Sprint(p.Seed), name)
		err := os.RemoveAll(dir)
		if err == nil {
			err = os.MkdirAll(dir, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("plan of seed %d:\n%s", p.Seed, p)
		res = run(t, dir, p)
		if res.ok() {
			_ = os.RemoveAll(dir) // also the data of an earlier run with this seed
		} else {
			t.Logf("history and logs are in %s", dir)
		}
	})
	return res
}

// options returns the flags for repeating a round.
func options() (text string) {
	if *onHosts {
		text += fmt.Sprintf(" HOSTS=1 RATE=%d", *rate)
	}
	if *measure != "" {
		text += " MEASURE=" + *measure
	}
	if *named != "" {
		text += " FAULTS=" + *named
	}
	if *only != "" {
		text += " ONLY=" + *only
	}
	if *doubled {
		text += " DOUBLE=1"
	}
	return text
}

// TestPlans: every seed draws a plan that some cluster supports, always the same one, and every kind of every fault leads in its turn, in
// 200 rounds at least once. About half of the plans have two faults at the same time.
func TestPlans(t *testing.T) {
	plans, paired := 0, 0
	turns := ofEachKind(faults)
	if len(turns) > 200 {
		t.Errorf("%d kinds of faults", len(turns))
	}
	leads := make(map[string]bool)
	for first := range uint64(len(turns)) {
		lead := turns[first]
		for i := range uint64(50) {
			seed := first + i*uint64(len(turns))
			p := newPlan(seed)
			if !slices.ContainsFunc(p.Steps, func(s step) bool {
				return s.Fault == lead.name && (s.Kind == "" || s.Kind == lead.kinds[0])
			}) {
				t.Errorf("seed %d: no %s %v", seed, lead.name, lead.kinds)
			}
			leads[fmt.Sprint(lead.name, lead.kinds)] = true
			if again := newPlan(seed); again.String() != p.String() || again.needs != p.needs {
				t.Fatalf("seed %d draws\n%sand then\n%s", seed, p, again)
			}
			if n := len(p.Steps); n < 1 || n > 10 {
				t.Errorf("seed %d: %d faults", seed, n)
			}
			plans++
			if slices.ContainsFunc(p.Steps, func(s step) bool {
				return slices.ContainsFunc(p.Steps, func(other step) bool { return other.At == s.At && other.String() != s.String() })
			}) {
				paired++
			}
			for _, s := range p.Steps {
				if (s.Kind == "") != (s.fault.kinds == nil) {
					t.Errorf("seed %d: %s", seed, s)
				}
				if s.At < firstFault-time.Second || s.At > lastFault || s.At-s.Before < 0 {
					t.Errorf("seed %d: %s", seed, s)
				}
			}
		}
	}
	if paired < plans*4/10 || paired > plans*6/10 {
		t.Errorf("%d of %d plans have a pair", paired, plans)
	}
	for _, f := range faults {
		for _, kind := range f.kinds {
			if !leads[fmt.Sprint(f.name, []string{kind})] {
				t.Errorf("%s=%s never leads", f.name, kind)
			}
		}
	}
}

// TestNamedPlans: the plan contains what FAULTS= defines, and invalid texts are refused.
func TestNamedPlans(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	p, err := planNamed(faults, 1, r, "kill-api#2@3s~1s,freeze-leader=leader_opens@2500ms~2s,api-at-before_answer!7@1s,failover@4s<700ms")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"failpoint=before_answer:7", "kind=leader_opens for=2s", "target=2 for=1s", "before=700ms"} {
		if got := p.Steps[i].String(); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, text := range []string{"", "kill", "kill-api@3", "freeze-leader=leader_sleeps", "kill-api=leader_opens", "kill-api#x"} {
		if p, err := planNamed(faults, 1, r, text); err == nil {
			t.Errorf("%q is\n%s", text, p)
		}
	}
}

// TestShrink: shrinking keeps the steps that the failure needs.
func TestShrink(t *testing.T) {
	p := planOf(1, rand.New(rand.NewPCG(1, 1)), faultNamed("freeze-api"), faultNamed("kill-api"), faultNamed("cut-redis"), faultNamed("kill-worker"))
	has := func(p plan, name string) bool {
		return slices.ContainsFunc(p.Steps, func(s step) bool { return s.Fault == name })
	}
	tries := 0
	least := shrink(p, func(_ int, p plan) bool { tries++; return !(has(p, "kill-api") && has(p, "cut-redis")) })
	if len(least.Steps) != 2 || !has(least, "kill-api") || !has(least, "cut-redis") || tries != 4 {
		t.Errorf("%d tries left\n%s", tries, least)
	}
}
