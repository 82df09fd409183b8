package orders

// Breach is one thing that does not add up. Two looks that see the same one
// make the same value.
type Breach struct {
	Invariant string
	What      string
}

// Inspection is what the database says of a sale's orders by itself.
type Inspection struct {
	Orders   int // rows
	Captured int // payments recorded
	Refunds  int // of those, the ones to be refunded
	Expiring int // confirmed orders whose time to pay is over, and was over lately
	Breaches []Breach
}

// MaxBreaches is how many breaches of a kind Inspect looks for.
const MaxBreaches = 1000
