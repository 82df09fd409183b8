// Package reports writes the orders of a sale down as CSV: to whoever asks over HTTP, and as a task of the worker into a folder. Either takes a
// while and keeps the database busy, so both need a permit of one semaphore, Semaphore.
package reports

// Semaphore is the name of the semaphore that bounds how many reports are written at once, in all processes.
const Semaphore = "report"
