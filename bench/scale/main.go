// Command scale simulates the first ten seconds of a sale: a crowd of a million against many APIs and one Redis, with costs that were
// measured on the real programs. It prints tables and draws them as SVG. The same seed gives the same files.
//
//	cd bench && go run ./scale [-seed 1] [-out ../docs/images]
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

func main() {
	seed := flag.Uint64("seed", 1, "seed of the crowd")
	out := flag.String("out", "", "folder for the plots; empty: none")
	flag.Parse()
	if err := run(os.Stdout, *seed, *out); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

var (
	manyNodes = []int{1, 2, 4, 8, 16, 32, 64, 128}
	lifetimes = []time.Duration{0, 50 * time.Millisecond, 200 * time.Millisecond, time.Second}
)

func run(w io.Writer, seed uint64, out string) error {
	fmt.Fprintf(w, "### 10,000 scripts with a request each 100 ms, of which a rule admits 5 in 10 s\n\n")
	fmt.Fprintln(w, "| nodes | denials not remembered: by Redis | Redis | remembered for a second: by Redis | Redis |")
	fmt.Fprintln(w, "|---:|---:|---:|---:|---:|")
	for _, n := range manyNodes {
		fmt.Fprintf(w, "| %d |", n)
		for _, lifetime := range []time.Duration{0, time.Second} {
			m := scripted()
			m.seed, m.nodes, m.lifetime = seed, n, lifetime
			r := m.run()
			fmt.Fprintf(w, " %d of %d | %s |", sum(r.asked), sum(r.asked)+sum(r.memory)+sum(r.shed), share(r.mean()))
		}
		fmt.Fprintln(w)
	}
	results := map[time.Duration][]*result{}
	for _, lifetime := range lifetimes {
		fmt.Fprintf(w, "\n### What a node remembers is used for %v\n\n", lifetime)
		fmt.Fprintln(w, "| nodes | sold out after | requests answered | by Redis | refused with 503 | Redis, busiest 100 ms | Redis after "+
			"the sell-out |")
		fmt.Fprintln(w, "|---:|---:|---:|---:|---:|---:|---:|")
		for _, n := range manyNodes {
			m := usual()
			m.seed, m.nodes, m.lifetime = seed, n, lifetime
			r := m.run()
			results[lifetime] = append(results[lifetime], r)
			fmt.Fprintf(w, "| %d | %s | %d | %d | %d | %.0f %% | %s |\n", n, when(r.soldOut), sum(r.memory)+sum(r.asked), sum(r.asked),
				sum(r.shed), 100*r.busiest(), share(r.afterwards()))
		}
	}
	if out == "" {
		return nil
	}
	return draw(results, func(name string) string { return filepath.Join(out, name+".svg") })
}

func when(d time.Duration) string {
	if d == 0 {
		return "never"
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

func share(x float64) string {
	if x < 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %%", 100*x)
}

// mean returns the share of one core that Redis needed.
func (r *result) mean() float64 { return float64(sum(r.redis)) / float64(time.Duration(steps)*step) }

// afterwards returns the share of one core that Redis needed from 250 ms after the last unit went; negative: it never went.
func (r *result) afterwards() float64 {
	from := int((r.soldOut + 250*time.Millisecond) / step)
	if r.soldOut == 0 || from >= steps {
		return -1
	}
	return float64(sum(r.redis[from:])) / float64(time.Duration(steps-from)*step)
}
