package core

import "time"

// Measures are shop.Measures, which documents them.
type Measures struct {
	Reserved     func(took time.Duration)
	Batch        func(size int, took time.Duration, err error)
	Confirmed    func(after time.Duration)
	Regressed    func()
	NewerVersion func(what string, n int)
}

// What a process of a later version wrote.
const (
	NewerTask   = "task"
	NewerRecord = "record"
)

// withDefaults returns m with functions that do nothing for those that are nil.
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
	if m.NewerVersion == nil {
		m.NewerVersion = func(string, int) {}
	}
	return m
}
