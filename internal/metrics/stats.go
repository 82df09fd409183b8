package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// stats collects the statistics of a gate.
type stats struct{ gate Gate }

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("tidegate_"+name, help, labels, nil)
}

var (
	degraded     = describe("admission_degraded", "1 while the store of the counts does not answer.")
	denials      = describe("deny_cache_entries", "Counters that are remembered as having refused.")
	hits         = describe("deny_cache_hits_total", "Requests without an id that a remembered denial refused.")
	misses       = describe("deny_cache_misses_total", "Requests without an id that were asked about or matched no rule.")
	rulesInfo    = describe("rules_info", "1, for the version of the rules in force.", "version")
	reloadFailed = describe("rules_reload_failed", "1 while the rules file has a change that is wrong; the rules before it are in force.")
	bans         = describe("bans", "Bans in force, as this process knows them.")
	processes    = describe("processes", "APIs alive when the store was last heard of.")

	memorySubjects  = describe("memory_subjects", "Counters that a shard of the embedded server's store holds.", "shard")
	memoryReclaimed = describe("memory_reclaimed_total", "Counters that had ended and were dropped.", "shard")
	memoryEvicted   = describe("memory_evicted_total", "Counters that still counted and made room for others because the shard was full.", "shard")
	memoryCleaned   = describe("memory_cleaned_seconds", "Time since the shard was last cleaned; every 10 seconds it should be.", "shard")
)

// Describe implements prometheus.Collector.
func (s stats) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{degraded, denials, hits, misses, rulesInfo, reloadFailed, bans, processes, memorySubjects, memoryReclaimed, memoryEvicted, memoryCleaned} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s stats) Collect(ch chan<- prometheus.Metric) {
	now := s.gate.Stats()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(degraded, number(now.Degraded))
	gauge(denials, float64(now.Denials))
	ch <- prometheus.MustNewConstMetric(hits, prometheus.CounterValue, float64(now.DenyHits))
	ch <- prometheus.MustNewConstMetric(misses, prometheus.CounterValue, float64(now.DenyMisses))
	gauge(rulesInfo, 1, now.Version)
	gauge(reloadFailed, number(now.RulesFailed))
	gauge(bans, float64(now.Bans))
	gauge(processes, float64(now.Processes))
	for i, m := range now.Memory {
		shard := strconv.Itoa(i)
		gauge(memorySubjects, float64(m.Subjects), shard)
		gauge(memoryCleaned, m.Cleaned.Seconds(), shard)
		ch <- prometheus.MustNewConstMetric(memoryReclaimed, prometheus.CounterValue, float64(m.Reclaimed), shard)
		ch <- prometheus.MustNewConstMetric(memoryEvicted, prometheus.CounterValue, float64(m.Evicted), shard)
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
