package orders

import "time"

// Measures are told what a Service and its workers do, as it happens. They must be quick and safe for concurrent use; nil ones are not called.
type Measures struct {
	// Reserved is told how long Redis took for one decision, also one that failed.
	Reserved func(took time.Duration)
	// Batch is told of each transaction that was to commit orders; err is why it did not.
	Batch func(orders int, took time.Duration, err error)
	// Confirmed is told, in the process that committed an order, how long after its acceptance that was; once, however often it is tried.
	Confirmed func(after time.Duration)
	// Regressed is told of each sale that is recovered because the database went back in time.
	Regressed func()
}

func (m Measures) withDefaults() Measures {
	if m.Reserved == nil {
		m.Reserved = func(time.Duration) {}
	}
	if m.Batch == nil {
		m.Batch = func(int, time.Duration, error) {}
	}
	if m.Confirmed == nil {
		m.Confirmed = func(time.Duration) {}
	}
	if m.Regressed == nil {
		m.Regressed = func() {}
	}
	return m
}
