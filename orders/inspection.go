package orders

// Breach is one inconsistency. Two looks that find the same one return equal values.
type Breach struct {
	Invariant string
	What      string
}

// Inspection is what the database alone shows of a sale's orders.
type Inspection struct {
	Orders   int // rows
	Captured int // payments recorded
	Refunds  int // of those, the ones to be refunded
	Expiring int // confirmed orders whose time to pay ended recently
	Breaches []Breach
}

// MaxBreaches is how many breaches of a kind Inspect looks for.
const MaxBreaches = 1000
