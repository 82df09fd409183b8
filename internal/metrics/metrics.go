// Package metrics tells Prometheus what a process does and what its installation has, and the live page what of that is not as it should be.
//
// No label has a value that a caller chose: rules, and tiers that the rules name, are as many as the operator wrote down.
package metrics

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tidegate/tidegate/admission"
)

// Gate is what is measured: an *admission.Gate.
type Gate interface {
	Stats() admission.Stats
	Rules() *admission.Rules
}

// Metrics are those of one process. Made by New; safe for concurrent use. What is measured of a part is added before the first scrape.
type Metrics struct {
	registry  *prometheus.Registry
	gate      Gate
	decisions *prometheus.CounterVec
	took      prometheus.Histogram
	tiers     atomic.Pointer[tierSet]
	requests  *prometheus.HistogramVec
	verdicts  verdicts
	reserved  atomic.Uint64     // reservations that were tried
	troubles  []func() []string // what does not work as it should, in words
}

// A tierSet is the tiers that some rules name.
type tierSet struct {
	of    *admission.Rules
	names map[string]bool
}

// New makes the metrics of a process of this version of the program.
func New(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), verdicts: verdicts{last: make(map[string]verdict)}}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "tidegate_build_info", Help: "1, for the version of the program.", ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build, &m.verdicts)
	m.troubles = append(m.troubles, m.verdicts.troubles)
	return m
}

// Gate adds the metrics of decisions.
func (m *Metrics) Gate(gate Gate) {
	m.gate = gate
	m.decisions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidegate_decisions_total",
		Help: "Requests that were to be charged, by the rule that decided, the tier, and what was decided.",
	}, []string{"rule", "tier", "action"})
	m.took = prometheus.NewHistogram(seconds("decision_duration_seconds", "Time of a decision of the rules, with its round trip to Redis if it took one."))
	m.registry.MustRegister(m.decisions, m.took, stats{gate}, prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "tidegate_decision_round_trips_total",
		Help: "Times that a decision waited for Redis: to be charged by the rules, and to reserve.",
	}, func() float64 { return float64(m.RoundTrips()) }))
}

// RoundTrips is how many times decisions have waited for Redis. Callers who wait together count each, though they share one way there.
func (m *Metrics) RoundTrips() uint64 { return m.gate.Stats().Asked + m.reserved.Load() }

// seconds is a native histogram of times, whose buckets are a tenth wide at most. Scrapes in text show the few classic ones.
func seconds(name, help string) prometheus.HistogramOpts {
	return native(name, help, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30)
}

func native(name, help string, classic ...float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: "tidegate_" + name, Help: help, Buckets: classic,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}
}

// Degraded tells what does not work as it should, in words, as it was found lately. It waits for nothing.
func (m *Metrics) Degraded() []string {
	var all []string
	for _, troubles := range m.troubles {
		all = append(all, troubles()...)
	}
	return all
}

// Add adds the metrics of a part that knows its own.
func (m *Metrics) Add(part prometheus.Collector) { m.registry.MustRegister(part) }

// Handler answers with all metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// Decided counts a decision.
func (m *Metrics) Decided(req *admission.Request, d *admission.Decision, took time.Duration) {
	rule := d.Rule
	if rule == "" {
		rule = "none"
	}
	m.decisions.WithLabelValues(rule, m.tier(req), string(d.Action)).Inc()
	m.took.Observe(took.Seconds())
}

// tier is that of a request, if the rules name it. Others come from callers, or whoever vouches for them.
func (m *Metrics) tier(req *admission.Request) string {
	switch {
	case req.Tier == "" && req.User == "":
		return admission.TierAnonymous
	case req.Tier == "":
		return admission.TierRegistered
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
