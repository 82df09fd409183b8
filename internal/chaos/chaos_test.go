package chaos

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tidegate/tidegate/internal/testenv"
)

// How make chaos runs TestChaos:
//
//	go test ./internal/chaos -run TestChaos -v -rounds 50 -seed 1 -parallel 3
var (
	rounds  = flag.Int("rounds", 0, "rounds of TestChaos; 0 skips it")
	seed    = flag.Uint64("seed", 0, "seed of the first round, the next ones follow; 0 draws one")
	named   = flag.String("faults", "", "faults to inject, by name, instead of those that the seed draws")
	only    = flag.String("only", "", "numbers of the plan's lines to carry out")
	doubled = flag.Bool("double", false, "take both copies of orders, and count the loss")
	report  = flag.String("report", "", "file for the results as JSON")
	keep    = flag.String("keep", filepath.Join(os.TempDir(), "tidegate-chaos"), "folder for histories and logs of broken rounds")
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// TestChaos runs rounds from seeds that follow each other. Every line it prints for a broken one repeats that very round.
func TestChaos(t *testing.T) {
	if *rounds == 0 {
		t.Skip("no -rounds; make chaos runs it, and TestEveryFault runs always")
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
	runAll(t, plans)
}

// drawn is the plan that the flags ask for.
func drawn(t *testing.T, seed uint64) plan {
	p := newPlan(seed)
	switch r := rand.New(rand.NewPCG(seed, 0)); {
	case *doubled:
		p = planOf(seed, r, &double)
	case *named != "":
		var chosen []*fault
		for name := range strings.SplitSeq(*named, ",") {
			chosen = append(chosen, faultNamed(name))
		}
		p = planOf(seed, r, chosen...)
	}
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

// runAll runs each plan as a subtest, as many at once as -parallel says, and sums up.
func runAll(t *testing.T, plans []plan) {
	bin := t.TempDir()
	if err := build(t.Context(), bin); err != nil {
		t.Fatal(err)
	}
	var (
		mu      sync.Mutex
		results []*result
	)
	t.Run("rounds", func(t *testing.T) {
		for _, p := range plans {
			t.Run(fmt.Sprint(p.Seed), func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(*keep, fmt.Sprint(p.Seed))
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				t.Logf("plan of seed %d:\n%s", p.Seed, p)
				res := Run(t, bin, dir, p)
				mu.Lock()
				results = append(results, res)
				mu.Unlock()
				fmt.Println(res) // while the others run
				if res.ok() {
					_ = os.RemoveAll(dir)
					return
				}
				for _, b := range res.Breaches {
					t.Errorf("%s", b)
				}
				t.Errorf("history and logs are in %s; make chaos ROUNDS=1 SEED=%d repeats the round", dir, p.Seed)
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
}
