package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/login"
)

// Logins are the metrics of login attempts. Make it with Metrics.Logins; it is safe for concurrent use.
type Logins struct {
	registry *prometheus.Registry
	attempts *prometheus.CounterVec
	outcomes *prometheus.CounterVec
	shadow   *prometheus.CounterVec
	degraded prometheus.Counter
}

// Logins adds the metrics of login attempts. It must be called only once.
func (m *Metrics) Logins() *Logins {
	l := &Logins{
		registry: m.registry,
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidegate_login_attempts_total", Help: "Login attempts, by mode, decision and reason.",
		}, []string{"mode", "decision", "reason"}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidegate_login_outcomes_total",
			Help: "Reported outcomes of login attempts, including repeats, by result; other: a different outcome was reported before, late: " +
				"reported after 30 seconds.",
		}, []string{"result"}),
		shadow: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidegate_login_shadow_total", Help: "Login attempts for which a shadow rule matched but was not applied.",
		}, []string{"rule"}),
		degraded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidegate_login_degraded_total", Help: "Login attempts decided from local counts because the store was unavailable.",
		}),
	}
	m.registry.MustRegister(l.attempts, l.outcomes, l.shadow, l.degraded)
	return l
}

// Decided counts a decision.
func (l *Logins) Decided(mode string, d *login.Decision) {
	reason := string(d.Reason)
	if reason == "" {
		reason = "none"
	}
	l.attempts.WithLabelValues(mode, string(d.Action), reason).Inc()
	if d.Shadow != "" {
		l.shadow.WithLabelValues(d.Shadow).Inc()
	}
	if d.Degraded {
		l.degraded.Inc()
	}
}

// Settled counts a result: success, failure, error, other or late.
func (l *Logins) Settled(result string) { l.outcomes.WithLabelValues(result).Inc() }

// Dropped adds the number of events that the history has lost, as returned by dropped. It must be called only once.
func (l *Logins) Dropped(dropped func() uint64) {
	l.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "tidegate_login_history_dropped_total", Help: "Login events missing in the history because its store was unavailable for too long.",
	}, func() float64 { return float64(dropped()) }))
}
