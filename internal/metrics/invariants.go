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

// verdicts collects the results of this process' verifications of sales.
type verdicts struct {
	mu   sync.Mutex
	last map[string]verdict // by sale, guarded by mu
}

type verdict struct {
	checks []orders.Check
	at     time.Time
}

var (
	violations = describe("invariant_violations", "Violations found when this process last verified the sale; no series if that is more than 5 minutes ago.",
		"sale")
	// One series per sale is enough while all is well, however many invariants there are.
	broken     = describe("broken_invariants", "Violations of each broken invariant, found when this process last verified the sale.", "sale", "invariant")
	verifiedAt = describe("invariants_verified_timestamp_seconds", "Unix time at which this process last verified the sale.", "sale")
)

// Verified records the result of verifying a sale.
func (m *Metrics) Verified(sale string, checks []orders.Check) {
	m.verdicts.mu.Lock()
	defer m.verdicts.mu.Unlock()
	m.verdicts.last[sale] = verdict{checks, time.Now()}
}

// Invariants returns how many sales this process has verified within the last five minutes, how many violations it found, and when it
// verified the latest.
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
