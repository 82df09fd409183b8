// Package metrics exports the metrics of a process and its installation to Prometheus, and reports degraded parts to the live page.
//
// No label has a value that a caller chooses: rules, and tiers named by the rules, are limited by the operator's configuration.
package metrics

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
)

// Gate is the source of the metrics: an *admission.Gate.
type Gate interface {
	Stats() admission.Stats
	Rules() *rules.Set
}

// Metrics are the metrics of one process. Make it with New; it is safe for concurrent use. Add all parts before the first scrape.
type Metrics struct {
	registry  *prometheus.Registry
	gate      Gate
	decisions *series[[3]string, prometheus.Counter] // rule, tier and action
	took      prometheus.Histogram
	tiers     atomic.Pointer[tierSet]
	requests  *series[[4]string, prometheus.Observer] // listener, method, route and code
	jwts      *prometheus.CounterVec
	verdicts  verdicts
	reserved  atomic.Uint64     // attempted reservations
	troubles  []func() []string // functions that describe degraded parts
}

// A tierSet is the set of tiers named by some rules.
type tierSet struct {
	of    *rules.Set
	names map[string]bool
}

// New returns the metrics of a process; version is that of the program.
func New(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), verdicts: verdicts{last: make(map[string]verdict)}}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "tidegate_build_info", Help: "Version of the program, as a label; the value is 1.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build, &m.verdicts)
	m.troubles = append(m.troubles, m.verdicts.troubles)
	return m
}

// Gate adds the metrics of decisions.
func (m *Metrics) Gate(gate Gate) {
	m.gate = gate
	decisions := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidegate_decisions_total",
		Help: "Requests to charge, by deciding rule, tier and action.",
	}, []string{"rule", "tier", "action"})
	m.decisions = newSeries(func(labels [3]string) prometheus.Counter { return decisions.WithLabelValues(labels[:]...) })
	m.took = prometheus.NewHistogram(seconds("decision_duration_seconds",
		"Duration of a decision by the rules, including its round trip to Redis, if any."))
	m.registry.MustRegister(decisions, m.took, stats{gate}, prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "tidegate_decision_round_trips_total",
		Help: "Waits of decisions for Redis, for rules and for reservations.",
	}, func() float64 { return float64(m.RoundTrips()) }))
}

// RoundTrips is how many times decisions have waited for Redis. Callers that share a round trip each count.
func (m *Metrics) RoundTrips() uint64 { return m.gate.Stats().StoreCalls + m.reserved.Load() }

// seconds returns the options of a native histogram of times, with buckets at most a tenth wide. Text scrapes show a few classic buckets.
func seconds(name, help string) prometheus.HistogramOpts {
	return native(name, help, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30)
}

func native(name, help string, classic ...float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: "tidegate_" + name, Help: help, Buckets: classic,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}
}

// Degraded describes the degraded parts, by recent results. It does not block.
func (m *Metrics) Degraded() []string {
	var all []string
	for _, troubles := range m.troubles {
		all = append(all, troubles()...)
	}
	return all
}

// Add adds a part that is a collector itself.
func (m *Metrics) Add(part prometheus.Collector) { m.registry.MustRegister(part) }

// Handler serves all metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// Decided counts a decision.
func (m *Metrics) Decided(req *admission.Request, d *admission.Decision, took time.Duration) {
	rule := d.Rule
	if rule == "" {
		rule = "none"
	}
	m.decisions.with([...]string{rule, m.tier(req), string(d.Action)}).Inc()
	m.took.Observe(took.Seconds())
}

// tier returns the tier of a request if the rules name it, because other tiers may be chosen by callers.
func (m *Metrics) tier(req *admission.Request) string {
	switch {
	case req.Tier == "" && req.User == "":
		return rules.TierAnonymous
	case req.Tier == "":
		return rules.TierRegistered
	}
	rules := m.gate.Rules()
	set := m.tiers.Load()
	if set == nil || set.of != rules {
		set = &tierSet{of: rules, names: map[string]bool{}}
		for _, name := range rules.Tiers() {
			set.names[name] = true
		}
		m.tiers.Store(set)
	}
	if set.names[req.Tier] {
		return req.Tier
	}
	return "other"
}
