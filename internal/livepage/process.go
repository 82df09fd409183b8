package livepage

import "time"

// A Process describes the process that made the frame.
type Process struct {
	Version   string   `json:"version"`            // of the program
	Rules     string   `json:"rules"`              // version of the rules in force
	Processes int      `json:"processes"`          // APIs
	Workers   *int     `json:"workers,omitempty"`  // processes that commit orders; nil: unknown
	Degraded  []string `json:"degraded"`           // descriptions of degraded parts, the faults first
	Warnings  []string `json:"warnings,omitempty"` // those of Degraded that are no faults, the last ones

	Invariants *Invariants `json:"invariants,omitempty"` // nil: no sale was verified lately
	Shards     []Shard     `json:"shards,omitempty"`
}

// Invariants are the results of the latest verifications of the sales.
type Invariants struct {
	Sales      int       `json:"sales"` // verified within the last five minutes
	Violations int       `json:"violations"`
	VerifiedAt time.Time `json:"verified_at"` // the latest
}

// A Shard is a part of the embedded server's counts, which are in its memory.
type Shard struct {
	Subjects  int    `json:"subjects"`
	Reclaimed uint64 `json:"reclaimed"`  // ended counters that were dropped
	Evicted   uint64 `json:"evicted"`    // active counters that were dropped for others
	CleanedMS int64  `json:"cleaned_ms"` // since the last cleaning
	Late      bool   `json:"late"`       // CleanedMS is too long
}
