package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/httpapi"
)

// Capacity adds the metrics of how many orders are decided at a time.
func (m *Metrics) Capacity(api *httpapi.API) { m.registry.MustRegister(capacity{api}) }

type capacity struct{ of *httpapi.API }

var (
	decidedLimit = describe("orders_in_decision_limit",
		"Maximum number of orders that this process decides at the same time; it adapts to the process's speed.")
	decidedNow = describe("orders_in_decision", "Orders that this process is deciding now.")
)

// Describe implements prometheus.Collector.
func (c capacity) Describe(ch chan<- *prometheus.Desc) { ch <- decidedLimit; ch <- decidedNow }

// Collect implements prometheus.Collector.
func (c capacity) Collect(ch chan<- prometheus.Metric) {
	limit, inUse := c.of.Capacity()
	ch <- prometheus.MustNewConstMetric(decidedLimit, prometheus.GaugeValue, float64(limit))
	ch <- prometheus.MustNewConstMetric(decidedNow, prometheus.GaugeValue, float64(inUse))
}
