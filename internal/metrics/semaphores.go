package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/recent"
	"github.com/tidegate/tidegate/semaphore"
)

// Semaphores is the source of the metrics: a *semregistry.Registry.
type Semaphores interface {
	// Counts returns the state of all semaphores, without holders and waiters. Operators choose their names, so there are few.
	Counts(ctx context.Context) ([]semaphore.Status, error)
}

// Semaphores adds the metrics of semaphores.
func (m *Metrics) Semaphores(s Semaphores) {
	p := permits{recent.New(askWithin, s.Counts)}
	m.registry.MustRegister(p)
	m.troubles = append(m.troubles, p.troubles)
}

// permits collects the counts in Redis. All processes of an installation report the same numbers.
type permits struct {
	counts *recent.Source[[]semaphore.Status]
}

func (p permits) troubles() []string {
	counts, _ := latest(p.counts)
	var all []string
	for i := range counts {
		switch c := &counts[i]; {
		case c.GrantsResumeIn == 0:
		case c.Restarted:
			all = append(all, "semaphore "+c.Name+" grants no permits yet: Redis was restarted or replaced and kept its data, of which the "+
				"latest may be missing; holders register again")
		default:
			all = append(all, "semaphore "+c.Name+" grants no permits yet: Redis lost its data, holders register again")
		}
	}
	return all
}

var (
	permitsLimit   = describe("semaphore_limit", "Maximum total weight of permits.", "semaphore")
	permitsHeld    = describe("semaphore_in_use", "Total weight of granted permits.", "semaphore")
	permitsWaiting = describe("semaphore_waiting", "Callers waiting for a permit.", "semaphore")
	permitsGranted = describe("semaphore_granted_total", "Permits granted.", "semaphore")
	permitsWaited  = describe("semaphore_waited_total", "Permits granted after waiting.", "semaphore")
	permitsWait    = describe("semaphore_waited_seconds_total",
		"Total time that callers waited before their permit was granted, in seconds.", "semaphore")
	permitsTimedOut = describe("semaphore_timed_out_total", "Callers that stopped waiting before a permit was granted.", "semaphore")
	permitsLost     = describe("semaphore_lost_total", "Permits whose lease expired before they were released.", "semaphore")
	permitsQuiet    = describe("semaphore_quiet_seconds",
		"Remaining time without new permits while holders register again after Redis was restarted or lost its data, in seconds.", "semaphore")
	permitsAbandoned = describe("semaphore_abandoned_total", "Waiting callers whose process stopped without leaving the queue.", "semaphore")
)

// Describe implements prometheus.Collector.
func (p permits) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		permitsLimit, permitsHeld, permitsWaiting, permitsGranted, permitsWaited, permitsWait, permitsTimedOut, permitsLost, permitsQuiet,
		permitsAbandoned,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. While Redis does not answer, the metrics are left out instead of repeating old values.
func (p permits) Collect(ch chan<- prometheus.Metric) {
	counts, _ := found(p.counts)
	for _, s := range counts {
		for _, v := range []struct {
			desc *prometheus.Desc
			kind prometheus.ValueType
			now  float64
		}{
			{permitsLimit, prometheus.GaugeValue, float64(s.Limit)},
			{permitsHeld, prometheus.GaugeValue, float64(s.InUse)},
			{permitsWaiting, prometheus.GaugeValue, float64(s.Waiting)},
			{permitsQuiet, prometheus.GaugeValue, s.GrantsResumeIn.Seconds()},
			{permitsGranted, prometheus.CounterValue, float64(s.Totals.Granted)},
			{permitsWaited, prometheus.CounterValue, float64(s.Totals.Waited)},
			{permitsWait, prometheus.CounterValue, s.Totals.WaitedFor.Seconds()},
			{permitsTimedOut, prometheus.CounterValue, float64(s.Totals.TimedOut)},
			{permitsLost, prometheus.CounterValue, float64(s.Totals.Lost)},
			{permitsAbandoned, prometheus.CounterValue, float64(s.Totals.Abandoned)},
		} {
			ch <- prometheus.MustNewConstMetric(v.desc, v.kind, v.now, s.Name)
		}
	}
}
