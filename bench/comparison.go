package main

import (
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/bench/stack"
)

// A comparison holds the turns of this project's stacks by name. The first name is this checkout's.
type comparison[T any] struct {
	names []string
	turns map[string][]T
}

// own returns this project's stacks. The others have no rooms, and no calls after the order.
func (r *run) own() []*stack.Stack {
	return slices.DeleteFunc(slices.Clone(r.stacks), func(st *stack.Stack) bool { return !st.Own() })
}

// compare has each of this project's stacks take one turn a round. The last stack of a round is the first of the next.
func compare[T any](r *run, rounds int, turn func(*stack.Stack) (T, error)) (comparison[T], error) {
	c := comparison[T]{turns: map[string][]T{}}
	stacks := r.own()
	for round := range rounds {
		for _, st := range stacks {
			t, err := turn(st)
			if err != nil {
				return c, fmt.Errorf("%s: %w", st.Name, err)
			}
			if round == 0 {
				c.names = append(c.names, st.Name)
			}
			c.turns[st.Name] = append(c.turns[st.Name], t)
		}
		slices.Reverse(stacks)
	}
	return c, nil
}

// first returns the first turn of this checkout.
func (c comparison[T]) first() T { return c.turns[c.names[0]][0] }

func (c comparison[T]) values(name string, value func(T) float64) (all []float64) {
	for _, t := range c.turns[name] {
		all = append(all, value(t))
	}
	return all
}

// mean returns the mean of this checkout's turns.
func (c comparison[T]) mean(value func(T) float64) float64 { return mean(c.values(c.names[0], value)) }

// heads returns the heads of the columns that quotients fills: this checkout's mean, divided by that of each other one, and in the same way
// the means of the first and of the second half of the turns. Halves that differ show noise, or that turns change what later ones cost.
func (c comparison[T]) heads() (heads []string) {
	for _, other := range c.names[1:] {
		heads = append(heads, "÷ "+other+" (first half, second half)")
	}
	return heads
}

// over formats the quotient of two means; "–" if there is none.
func over(ours, theirs []float64) string {
	if m := mean(theirs); m > 0 {
		return times(mean(ours) / m)
	}
	return "–"
}

func (c comparison[T]) quotients(value func(T) float64) (cells []string) {
	ours := c.values(c.names[0], value)
	half := len(ours) / 2
	for _, other := range c.names[1:] {
		theirs := c.values(other, value)
		cells = append(cells, fmt.Sprintf("%s (%s, %s)", over(ours, theirs), over(ours[:half], theirs[:half]), over(ours[half:], theirs[half:])))
	}
	return cells
}
