package draw

import (
	"crypto/sha256"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// W27, P18: over many draws every place of the list has every position equally often, and positions are as independent of the order of joining
// as in a fair draw. The seeds are always the same, so the result is, too.
func TestThePermutationIsFair(t *testing.T) {
	for n, draws := range map[int64]float64{2: 4000, 3: 4000, 5: 4000, 20: 2000, 80: 500} {
		var sum, squares float64
		parts := min(n, 5)
		cells := make([]float64, parts*parts)
		for d := range int(draws) {
			seed := sha256.Sum256(fmt.Appendf(nil, "draw %d of %d", d, n))
			perm := newPermutation(seed[:], n)
			apart := 0.0
			for i := range n {
				p := perm.position(i)
				apart += math.Pow(float64(i-p), 2)
				cells[i*parts/n*parts+p*parts/n]++
			}
			// Spearman's correlation, which in a fair draw has mean 0 and variance 1/(n-1).
			rho := (1 - 6*apart/float64(n*(n*n-1))) * math.Sqrt(float64(n-1))
			sum, squares = sum+rho, squares+rho*rho
		}
		if mean := sum / draws; math.Abs(mean) > 3.3/math.Sqrt(draws) { // p < 0.001
			t.Errorf("of %d, the mean of the rank correlation is %.4f of its deviation", n, mean)
		}
		if variance := squares / draws; n > 3 && math.Abs(variance-1) > 3.3*math.Sqrt(2/draws) {
			t.Errorf("of %d, the variance of the rank correlation is %.3f of what is fair", n, variance)
		}
		if n%parts != 0 {
			continue
		}
		chi, expected := 0.0, draws*float64(n)/float64(parts*parts)
		for _, count := range cells {
			chi += (count - expected) * (count - expected) / expected
		}
		// Of parts² cells, whose rows and columns have fixed sums. By Wilson and Hilferty, the cube root is about normal.
		freedom := float64((parts - 1) * (parts - 1))
		if z := (math.Cbrt(chi/freedom) - (1 - 2/(9*freedom))) / math.Sqrt(2/(9*freedom)); z > 3.1 { // p < 0.001
			t.Errorf("of %d, χ² is %.1f with %.0f degrees of freedom", n, chi, freedom)
		}
	}
}

// The permutation is one to one, and index is its inverse.
func TestPermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 3000).Draw(t, "n")
		perm := newPermutation(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "seed"), n)
		seen := make(map[int64]bool, n)
		for i := range n {
			p := perm.position(i)
			if p < 0 || p >= n || seen[p] || perm.index(p) != i {
				t.Fatalf("of %d, %d is at %d, which is of %d", n, i, p, perm.index(p))
			}
			seen[p] = true
		}
	})
}

// Numbers and positions of a room, without a draw, and with one after which others joined.
func TestOrder(t *testing.T) {
	for what, o := range map[string]Order{"fifo": {}, "draw": Seed{}.Order("", 50)} {
		for seq := int64(1); seq <= 60; seq++ {
			position := o.Position(seq)
			if o.Number(position) != seq {
				t.Errorf("%s: number %d has the position %d, which has the number %d", what, seq, position, o.Number(position))
			}
			if (seq > o.drawn) != (position >= o.drawn) || seq > o.drawn && position != seq-1 {
				t.Errorf("%s: number %d has the position %d", what, seq, position)
			}
		}
	}
}
