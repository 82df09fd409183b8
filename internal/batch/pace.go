package batch

import "time"

// A Pace is how often calls come. It decides whether a rest between two batches pays: while calls come so often that a rest collects one
// on average. Otherwise most calls that arrive in a rest would wait alone. The zero value is for a first call. It is not safe for
// concurrent use.
type Pace struct {
	began         time.Time // of this span
	count, before int       // calls of this span and of the one before
}

const paceSpan = 100 * time.Millisecond

// Add counts calls that came until now.
func (p *Pace) Add(calls int, now time.Time) {
	if since := now.Sub(p.began); since >= paceSpan {
		p.before = p.count
		if since >= 2*paceSpan {
			p.before = 0
		}
		p.began, p.count = now, 0
	}
	p.count += calls
}

// Pays reports whether a rest pays.
func (p *Pace) Pays(rest time.Duration) bool {
	return time.Duration(max(p.count, p.before))*rest >= paceSpan
}
