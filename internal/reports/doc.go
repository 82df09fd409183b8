// Package reports writes the orders of a sale down as CSV: to whoever asks over HTTP, and as a task of the worker into a folder. Either takes a
// while and keeps the database busy, so both need a permit of one semaphore, Semaphore.
package reports

import "github.com/tidegate/tidegate/admission"

// Semaphore is the name of the semaphore that bounds how many reports are written at once, in all processes.
const Semaphore = "report"

// BuiltIn returns what applies where the rules file does not declare Semaphore: what the built-in rules do.
func BuiltIn() []admission.SemaphoreRule { return admission.DefaultRules().Semaphores() }
