package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Remembered adds the metric of how far back a process remembers committed orders: a *shop.Service.
func (m *Metrics) Remembered(of interface{ RememberedFor() time.Duration }) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tidegate_remembered_seconds", Help: "How far back this process remembers the orders that it accepted, after their commit, in " +
			"seconds.",
	}, func() float64 { return of.RememberedFor().Seconds() }))
}
