package main

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/internal/simulation"
)

// maxShrinking is how many smaller worlds are tried.
const maxShrinking = 80

// shrink returns the smallest shape found that still breaks. Chance decides otherwise in a smaller world, so it often takes another way,
// and does not break although it could.
func shrink(s simulation.Shape, breaks func(simulation.Shape) bool) simulation.Shape {
	for tries := 0; ; {
		i := slices.IndexFunc(s.Smaller(), func(c simulation.Shape) bool {
			tries++
			return tries <= maxShrinking && breaks(c)
		})
		if i < 0 {
			return s
		}
		s = s.Smaller()[i]
	}
}

// breaksAgain returns whether a world of another shape breaks the same invariant as o.
func (r *run) breaksAgain(ctx context.Context, number uint64, o outcome) func(simulation.Shape) bool {
	invariant := func(breach string) string { return breach[:strings.IndexByte(breach, ' ')] }
	return func(s simulation.Shape) bool {
		again, err := r.host.run(ctx, number, &s, io.Discard)
		return err == nil && ctx.Err() == nil &&
			slices.ContainsFunc(again.Breaches, func(b string) bool { return invariant(b) == invariant(o.Breaches[0]) })
	}
}
