package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/connections"
)

// Connections adds the metrics of the listeners' connections, by listener.
func (m *Metrics) Connections(bounds map[string]*connections.Bound) {
	m.registry.MustRegister(clientConns(bounds))
}

type clientConns map[string]*connections.Bound

var (
	connsOpen = describe("http_connections", "Connections of clients, by listener.", "listener")
	connsMost = describe("http_connections_max", "Maximum number of connections of clients, by listener, from the limit of open files.",
		"listener")
	connsRefused = describe("http_connections_refused_total",
		"Connections that were refused, by listener and cause: full (no room) or address (too many from one address).", "listener", "cause")
	connsReclaimed = describe("http_connections_reclaimed_total",
		"Idle connections that were closed to make room for new ones, by listener.", "listener")
	connsErrors = describe("http_accept_errors_total",
		"Failed attempts to accept a connection, for example without a free file descriptor, by listener.", "listener")
)

// Describe implements prometheus.Collector.
func (c clientConns) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{connsOpen, connsMost, connsRefused, connsReclaimed, connsErrors} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c clientConns) Collect(ch chan<- prometheus.Metric) {
	for listener, bound := range c {
		now := bound.Stats()
		ch <- prometheus.MustNewConstMetric(connsOpen, prometheus.GaugeValue, float64(now.Open), listener)
		ch <- prometheus.MustNewConstMetric(connsMost, prometheus.GaugeValue, float64(now.Most), listener)
		ch <- prometheus.MustNewConstMetric(connsRefused, prometheus.CounterValue, float64(now.RefusedFull), listener, "full")
		ch <- prometheus.MustNewConstMetric(connsRefused, prometheus.CounterValue, float64(now.RefusedAddress), listener, "address")
		ch <- prometheus.MustNewConstMetric(connsReclaimed, prometheus.CounterValue, float64(now.Reclaimed), listener)
		ch <- prometheus.MustNewConstMetric(connsErrors, prometheus.CounterValue, float64(now.AcceptErrors), listener)
	}
}
