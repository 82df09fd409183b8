package firewall

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func newRuns() *prometheus.CounterVec {
	runs := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidegate_ban_script_runs_total",
		Help: "Runs of the bans.run program, and bans for which it was not run, by action and result: ok, failed, timeout, refused or postponed.",
	}, []string{"action", "result"})
	for _, action := range []string{"ban", "unban"} {
		runs.WithLabelValues(action, "ok")
		runs.WithLabelValues(action, "failed")
		runs.WithLabelValues(action, "timeout")
	}
	runs.WithLabelValues("ban", "refused")
	runs.WithLabelValues("ban", "postponed")
	return runs
}

var (
	breakerOpen = prometheus.NewDesc("tidegate_ban_script_breaker_open",
		"1 while bans are not passed to the firewall because they exceed bans.run.per_minute, else 0.", nil, nil)
	executable = prometheus.NewDesc("tidegate_ban_script_executable",
		"1 if this process can run the bans.run program, else 0; no series if the rules name none.", nil, nil)
)

// Describe implements prometheus.Collector.
func (w *Worker) Describe(ch chan<- *prometheus.Desc) {
	w.runs.Describe(ch)
	ch <- breakerOpen
	ch <- executable
}

// Collect implements prometheus.Collector.
func (w *Worker) Collect(ch chan<- prometheus.Metric) {
	w.runs.Collect(ch)
	ch <- gauge(breakerOpen, w.opened.Load() > time.Now().UnixMilli())
	if script := scriptOf(w.opts.Rules()); len(script.Argv) > 0 {
		ch <- gauge(executable, runnable(script) == nil)
	}
}

func gauge(d *prometheus.Desc, is bool) prometheus.Metric {
	v := 0.0
	if is {
		v = 1
	}
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
}
