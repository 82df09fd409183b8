package shop

import "time"

// Measures are callbacks that report what a Service and its workers do. They must be quick and safe for concurrent use; nil
// ones are not called.
type Measures struct {
	// Reserved receives the duration of each decision in Redis, including failed ones.
	Reserved func(took time.Duration)
	// Batch receives the size and duration of each transaction that commits orders; err is nil if it succeeded.
	Batch func(size int, took time.Duration, err error)
	// Confirmed receives the time from an order's acceptance to its commit. It is called once per order, by the process that
	// committed it, however many attempts it took.
	Confirmed func(after time.Duration)
	// Regressed is called for each sale that is recovered because the database went back in time.
	Regressed func()
	// NewerVersion receives how many tasks or records ("task", "record") of a later version were found and left to processes of that
	// version. It is called again whenever they are found again.
	NewerVersion func(what string, n int)
}
