package store

import "time"

// A Tally is one counter that a request touches: one subject in one window of one rule.
type Tally struct {
	Key       string // identifies the counter
	Subject   string // keyed hash of the subject; tallies with the same subject share a cluster slot
	Algorithm Algorithm
	Limit     int      // units
	Window    Window   // the window of Limit
	Burst     int      // maximum burst in units, 1 or more; read by algorithms with a burst, as GCRA
	Base      *Base    // TwoStage: the free first stage
	Cost      int      // units, 1 or more
	Shadow    bool     // the tally only reports
	Strikes   *Strikes // counts refusals; nil means none
	Records   string   // key of the recorded answers to requests with an id; used if Call.Request is set
	Refusals  int      // Reject: number of refused requests, for Strikes; Cost is their total cost

	CountRejected bool // refused requests are counted too

	// Stamp is the Count.Stamp of the charge. Only for Refund without Call.Request: identifies what to take back.
	Stamp int64
}

// Strikes count how often a tally refused. The refusal that reaches Limit within Window sets Count.Struck, and counting starts from zero.
type Strikes struct {
	Key    string
	Limit  int // 1 or more
	Window time.Duration
}

// A Base is the first stage of TwoStage: Limit units of a Window, as FixedWindow counts them.
type Base struct {
	Key    string
	Limit  int
	Window Window
}

const (
	// MaxLimit is the highest limit of a Tally.
	MaxLimit = 1_000_000_000
	// MaxLogged is the highest limit of a sliding log, which keeps one time for every unit.
	MaxLogged = 100_000
)
