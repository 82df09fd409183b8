// Package rehearseroom sends a crowd through a waiting room to a sale, and judges from its own evidence whether the room kept what it
// promised: one place a person, an order that does not change, no turn before the start, a unit for every turn that is taken in time, and
// no order without a turn.
package rehearseroom
