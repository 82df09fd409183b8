package memorystore

import (
	"math/rand/v2"
	"testing"
)

// A table holds what a map would, while it grows, shrinks and closes gaps, also around its end.
func TestATableIsAMap(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var found table
		want := map[counterID]int64{}
		for step := int64(1); step <= 20_000; step++ {
			id := counterID(rng.Uint64N(1000)+1) << 54 // some are at home in the same slot
			if seed%2 == 0 {
				id = counterID(rng.Uint64N(1000)+1) * 0x9e3779b97f4a7c15
			}
			_, there := want[id]
			growing := step/5000%2 == 0 // more come than leave
			switch {
			case there && (rng.IntN(4) == 0) == growing:
				found.remove(id)
				delete(want, id)
			case !there && (rng.IntN(4) != 0) == growing:
				found.add(id).ends = step
				want[id] = step
			}
			if c := found.find(id); (c != nil) != (want[id] != 0) || c != nil && c.ends != want[id] {
				t.Fatalf("seed %d, step %d: %+v, want %d", seed, step, c, want[id])
			}
			if step%500 != 0 {
				continue
			}
			if found.count != len(want) || len(found.slots) > max(fewest, 8*len(want)) {
				t.Fatalf("seed %d, step %d: %d of %d in %d slots", seed, step, found.count, len(want), len(found.slots))
			}
			for id, ends := range want {
				if c := found.find(id); c == nil || c.ends != ends {
					t.Fatalf("seed %d, step %d: %d is %+v, want %d", seed, step, id, c, ends)
				}
			}
		}
	}
}
