package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/reload"
)

var (
	reloadFailed = describe("reload_failed",
		"1 while the file or URL of a setting cannot be read or is invalid and its previous content stays in force, else 0.", "setting")
	reloadAge = describe("reload_age_seconds",
		"Time since the content in force was read, in seconds. Files are read when they change, JWT_JWKS_URL every five minutes.", "setting")
)

// reloads collects the states of settings that are read again while the process runs.
type reloads func() []reload.State

// Reloads adds the metrics of settings that are read again while the process runs.
func (m *Metrics) Reloads(states func() []reload.State) { m.Add(reloads(states)) }

// Describe implements prometheus.Collector.
func (reloads) Describe(ch chan<- *prometheus.Desc) {
	ch <- reloadFailed
	ch <- reloadAge
}

// Collect implements prometheus.Collector.
func (states reloads) Collect(ch chan<- prometheus.Metric) {
	for _, s := range states() {
		ch <- prometheus.MustNewConstMetric(reloadFailed, prometheus.GaugeValue, number(s.Failed), s.Setting)
		ch <- prometheus.MustNewConstMetric(reloadAge, prometheus.GaugeValue, time.Since(s.Loaded).Seconds(), s.Setting)
	}
}
