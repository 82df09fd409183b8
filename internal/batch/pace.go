package batch

import "time"

// A Pace decides whether a rest between two batches pays: while calls come so often that a rest collects one on average, and batches after
// rests have more than one. Otherwise most calls that arrive in a rest would wait alone, or for nothing: a caller that makes one call after
// the other is delayed by its own rests. The zero value is for a first call. It is not safe for concurrent use.
type Pace struct {
	began   time.Time // of this span
	calls   int       // in this span
	before  int       // calls in the span before
	batches int       // in this span
	rested  bool      // in this span, a batch did
	vain    time.Time // until then no rest pays, because earlier ones did not
}

const (
	paceSpan = 100 * time.Millisecond
	paceVain = 2 * time.Second
)

// Add counts a batch of calls that came until now.
func (p *Pace) Add(calls int, now time.Time) {
	if since := now.Sub(p.began); since >= paceSpan {
		if p.rested && 4*p.calls < 5*p.batches {
			p.vain = now.Add(paceVain)
		}
		p.before = p.calls
		if since >= 2*paceSpan {
			p.before = 0
		}
		*p = Pace{began: now, before: p.before, vain: p.vain}
	}
	p.calls += calls
	p.batches++
}

// Pays reports whether a rest before the next batch pays. If so, it counts as one.
func (p *Pace) Pays(rest time.Duration, now time.Time) bool {
	pays := time.Duration(max(p.calls, p.before))*rest >= paceSpan && !now.Before(p.vain)
	p.rested = p.rested || pays
	return pays
}
