package memorystore

import (
	"github.com/tidegate/tidegate/admission/internal/algorithm"
	"github.com/tidegate/tidegate/admission/store"
)

// A counter is the state of one tally, or the recorded answers to a subject's requests. The zero value has counted nothing.
//
// It has 128 bytes. A sliding log needs only the first 64 of them, one cache line, because memory access dominates the cost of a decision.
type counter struct {
	id   counterID // 0: no counter
	ends int64     // µs: from then on nothing counts
	algorithm.State
	answers *answers // nil, except under a Tally.Records
	place   int32    // position in the shard's queue, from 1; 0: not queued
	used    uint8    // used share of the limit at the last count, in 1/255; 0 for answers
	_       [24]byte
}

// measure sets used to the share of t's limit in use at now.
func (c *counter) measure(now int64, t *store.Tally) {
	most := algorithm.Capacity(t)
	c.used = shareOf(most-c.Read(now, t).Remaining, most)
}

// shareOf returns used/most in 1/255.
func shareOf(used, most int) uint8 {
	if used >= most {
		return 255
	}
	return uint8(255 * float64(used) / float64(most))
}
