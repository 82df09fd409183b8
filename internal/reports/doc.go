// Package reports exports the orders of a sale: over HTTP, and as a task of the worker into a folder. An export takes a while and
// keeps the database busy, so each needs a permit of the semaphore [Semaphore].
package reports

// Semaphore is the name of the semaphore that bounds how many reports are written at once, in all processes.
const Semaphore = "report"
