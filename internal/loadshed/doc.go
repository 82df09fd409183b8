// Package loadshed determines whether a request can be served in time: a queue for the CPU, the capacity for decisions, and
// allowances for expensive lookups. Whatever it refuses gets its own time to retry, so that refused clients do not return at once.
package loadshed
