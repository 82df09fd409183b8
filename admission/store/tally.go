package store

import "time"

// A Tally is one counter that a request touches: one subject in one window of one rule.
type Tally struct {
	Key       string // identifies the counter
	Subject   string // keyed hash of the subject; tallies with the same subject share a cluster slot
	Algorithm Algorithm
	Limit     int      // units
	Window    Window   // the window of Limit
	Burst     int      // GCRA: maximum burst in units, 1 or more
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

// Algorithm names how a tally counts: in Go in internal/algorithm, in Redis in redisstore/lua. It is a closed set; the same word is used in
// rules files, JSON and the scripts.
type Algorithm string

// The algorithms.
const (
	// SlidingLog keeps the time of every unit. Exact: at most limit units lie in any span of a window's length.
	SlidingLog Algorithm = "sliding_log"
	// SlidingCounter keeps the units of two adjacent spans of a window's length and assumes those of the earlier one to be evenly
	// distributed. It keeps two numbers, whatever the limit. See https://blog.cloudflare.com/counting-things-a-lot-of-different-things/.
	SlidingCounter Algorithm = "sliding_counter"
	// FixedWindow counts the units of one window, which its first unit or the calendar opens. Up to twice the limit can pass around the
	// end of a window.
	FixedWindow Algorithm = "fixed_window"
	// GCRA admits units at an even rate and up to a burst of them early (ITU-T I.371, the virtual scheduling algorithm).
	GCRA Algorithm = "gcra"
	// TwoStage admits the units of a base for free, and limits only further units, by a sliding log.
	TwoStage Algorithm = "base"
)

const (
	// MaxLimit is the highest limit of a Tally.
	MaxLimit = 1_000_000_000
	// MaxLogged is the highest limit of a sliding log, which keeps one time for every unit.
	MaxLogged = 100_000
)
