package serve

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/firewall"
	"github.com/tidegate/tidegate/internal/metrics"
	"github.com/tidegate/tidegate/internal/reports"
	"github.com/tidegate/tidegate/orders/shop"
)

// Metrics returns the metrics of a process that uses these clients.
func Metrics(r *Redis) *metrics.Metrics {
	m := metrics.New(Version())
	clients := map[string]metrics.RedisClient{}
	for name, client := range r.clients() {
		clients[name] = metrics.RedisClient{Client: client, Trips: r.Trips[name].n.Load}
	}
	m.Redis(clients)
	m.Add(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "tidegate_log_dropped_total", Help: "Lines of the log that were dropped because its reader did not keep up.",
	}, func() float64 { lines, _ := stderr.Dropped(); return float64(lines) }))
	return m
}

// measureInstallation adds metrics that are the same in all processes, so that they are available while any of them runs.
func (p *Process) measureInstallation(namespace string, svc *shop.Service, r *Redis) {
	p.Metrics.Sales(svc)
	p.Metrics.Queues(r.Queue, namespace+"-", append(svc.Queues(), firewall.Queue(namespace), reports.Queue(namespace)))
}
