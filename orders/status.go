package orders

import "time"

// SaleStatus is a sale as it stands now.
type SaleStatus struct {
	Sale
	State State
	Now   time.Time      // Redis' clock
	Free  map[string]int // units left by item id; 0 for items that are recovering
}

// A Backlog counts the orders of all processes that are accepted and not committed yet.
type Backlog struct {
	Orders int
	// Oldest is the age of the oldest order; 0 without orders. If many orders wait, it is the age of one of the oldest.
	Oldest time.Duration
}

// A Process is a running process of an installation.
type Process struct {
	Program string // the name it gives itself
	Commits bool   // it has committed orders within the last 15 s, or proved that it could
}
