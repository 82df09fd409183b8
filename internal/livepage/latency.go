package livepage

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// latencies count durations by buckets of which each octave has eight, up to nine minutes. The zero value is ready; safe for
// concurrent use.
type latencies [8 * 27]atomic.Uint64

func (l *latencies) add(took time.Duration) { l[min(bucketOf(took), len(l)-1)].Add(1) }

// totals returns the counts since the start.
func (l *latencies) totals() *durations {
	d := new(durations)
	for i := range l {
		d[i] = l[i].Load()
	}
	return d
}

// durations are the counts of latencies at one time.
type durations [8 * 27]uint64

// since returns the latency of what was counted after before, or nil if nothing was.
func (d *durations) since(before *durations) *Latency {
	var counts durations
	all := uint64(0)
	for i := range d {
		counts[i] = d[i] - before[i]
		all += counts[i]
	}
	if all == 0 {
		return nil
	}
	quantile := func(percent uint64) int64 {
		rank, seen := (all*percent+99)/100, uint64(0)
		for i, n := range counts {
			if seen += n; seen >= rank {
				return below(i)
			}
		}
		return below(len(counts) - 1)
	}
	return &Latency{P50US: quantile(50), P99US: quantile(99)}
}

// bucketOf returns the bucket of a duration: microseconds below 8 have one each, and of larger ones the three bits after the
// highest decide.
func bucketOf(took time.Duration) int {
	us := uint64(max(0, took.Microseconds()))
	if us < 8 {
		return int(us)
	}
	octave := bits.Len64(us) - 4
	return 8*(octave+1) + int(us>>octave&7)
}

// below returns the end of a bucket in microseconds.
func below(bucket int) int64 {
	if bucket < 8 {
		return int64(bucket) + 1
	}
	octave := bucket/8 - 1
	return int64(8+bucket%8+1) << octave
}
