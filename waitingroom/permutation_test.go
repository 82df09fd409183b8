package waitingroom_test

import (
	"crypto/sha256"
	"fmt"
	"math"
	"testing"

	"github.com/tidegate/tidegate/waitingroom"
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
			position, _ := waitingroom.Permutation(seed[:], n)
			apart := 0.0
			for i := range n {
				p := position(i)
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
