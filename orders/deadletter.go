package orders

import "time"

// DeadLetter is an order that was accepted and that the database refuses.
type DeadLetter struct {
	Reservation Reservation
	Reason      string // the database's error message
	At          time.Time
}
