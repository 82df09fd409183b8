package orders

// Check is the verdict on one invariant.
type Check struct {
	Invariant string `json:"invariant"`
	OK        bool   `json:"ok"`
	Detail    string `json:"detail"`
	// Waiting is how many orders or tasks are still under way.
	Waiting int `json:"waiting,omitempty"`
	// Breaches is how many things do not add up.
	Breaches int `json:"breaches,omitempty"`
	// Advice is what an operator should do about a breach.
	Advice string `json:"advice,omitempty"`
}
