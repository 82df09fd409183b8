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

// own returns this project's stacks. Others have no rooms, and other lives of orders.
func (r *run) own() []*stack.Stack {
	return slices.DeleteFunc(slices.Clone(r.stacks), func(st *stack.Stack) bool { return !st.Own() })
}

// compare has each of this project's stacks take one turn a round, the last one first in every second round.
func compare[T any](r *run, rounds int, turn func(*stack.Stack) (T, error)) (comparison[T], error) {
	c := comparison[T]{turns: map[string][]T{}}
	for round := range rounds {
		stacks := r.own()
		if round%2 == 1 {
			slices.Reverse(stacks)
		}
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

// median returns that of this checkout's turns.
func (c comparison[T]) median(value func(T) float64) float64 {
	return median(c.values(c.names[0], value))
}

// heads returns the heads of the columns that quotients fills: this checkout's figure, divided by that of each other one.
func (c comparison[T]) heads() (heads []string) {
	for _, other := range c.names[1:] {
		heads = append(heads, "÷ "+other+" (lowest–highest)")
	}
	return heads
}

func (c comparison[T]) quotients(value func(T) float64) (cells []string) {
	for _, other := range c.names[1:] {
		cells = append(cells, quotient(c.values(c.names[0], value), c.values(other, value)))
	}
	return cells
}
