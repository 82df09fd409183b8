// Package charge asks the admission rules about requests, and turns their refusals into problems.
package charge
