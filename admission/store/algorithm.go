package store

// Algorithm names how a tally counts. It is a closed set; the same word is used in rules files, JSON and the scripts. To add one, name it
// here, count in Go in a file of internal/algorithm, which registers it, and in Redis in redisstore/lua/NAME.lua.
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

// Algorithms are all of them. One whose script needs that of another comes after it.
var Algorithms = []Algorithm{SlidingLog, SlidingCounter, FixedWindow, GCRA, TwoStage}
