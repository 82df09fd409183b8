package metrics

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/orders"
)

// verifiedFresh is how long a result is reported. Later, another process may have verified the sale, and the problem may have been fixed.
const verifiedFresh = 5 * time.Minute

// verdicts collects the results of the latest verifications of sales, by any process.
type verdicts struct {
	mu   sync.Mutex
	last map[string]verdict // by sale, guarded by mu
}

type verdict struct {
	checks []orders.Check
	at     time.Time
}

var (
	violations = describe("invariant_violations",
		"Violations found when the sale was last verified; no series if that is more than 5 minutes ago.",
		"sale")
	// One series per sale is enough while all is well, however many invariants there are.
	broken = describe("broken_invariants", "Violations of each broken invariant, found when the sale was last verified.", "sale",
		"invariant")
	verifiedAt = describe("invariants_verified_timestamp_seconds", "Unix time at which the sale was last verified.", "sale")
)

// Verified records the result of verifying a sale at a time. Only the broken checks are needed.
func (m *Metrics) Verified(sale string, checks []orders.Check, at time.Time) {
	m.verdicts.mu.Lock()
	defer m.verdicts.mu.Unlock()
	if !at.Before(m.verdicts.last[sale].at) {
		m.verdicts.last[sale] = verdict{checks, at}
	}
}

// Invariants returns how many sales were verified within the last five minutes, how many violations were found, and when the latest was
// verified.
func (m *Metrics) Invariants() (sales, violations int, latest time.Time) {
	v := &m.verdicts
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, seen := range v.last {
		if time.Since(seen.at) > verifiedFresh {
			continue
		}
		sales++
		for _, c := range seen.checks {
			violations += c.Breaches
		}
		if seen.at.After(latest) {
			latest = seen.at
		}
	}
	return sales, violations, latest
}

// troubles returns the sales with recent violations.
func (v *verdicts) troubles() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []string
	for _, sale := range slices.Sorted(maps.Keys(v.last)) {
		for _, c := range v.last[sale].checks {
			if c.Breaches > 0 && time.Since(v.last[sale].at) <= verifiedFresh {
				all = append(all, "invariant "+c.Invariant+" of sale "+sale+" does not hold")
			}
		}
	}
	return all
}

// Describe implements prometheus.Collector.
func (v *verdicts) Describe(ch chan<- *prometheus.Desc) {
	ch <- violations
	ch <- broken
	ch <- verifiedAt
}

// Collect implements prometheus.Collector.
func (v *verdicts) Collect(ch chan<- prometheus.Metric) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for sale, seen := range v.last {
		if time.Since(seen.at) > verifiedFresh {
			delete(v.last, sale)
			continue
		}
		total := 0
		for _, c := range seen.checks {
			if total += c.Breaches; c.Breaches > 0 {
				ch <- prometheus.MustNewConstMetric(broken, prometheus.GaugeValue, float64(c.Breaches), sale, c.Invariant)
			}
		}
		ch <- prometheus.MustNewConstMetric(violations, prometheus.GaugeValue, float64(total), sale)
		ch <- prometheus.MustNewConstMetric(verifiedAt, prometheus.GaugeValue, float64(seen.at.UnixMilli())/1000, sale)
	}
}
