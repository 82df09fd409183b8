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
	degraded  = describe("admission_degraded", "1 while the store of the counters is unavailable, else 0.")
	denials   = describe("deny_cache_entries", "Denials in the local deny cache.")
	hits      = describe("deny_cache_hits_total", "Requests without an id that the deny cache refused.")
	misses    = describe("deny_cache_misses_total", "Requests without an id that the deny cache did not refuse.")
	rulesInfo = describe("rules_info", "Version of the rules in force, as a label; the value is 1.", "version")
	bans      = describe("bans", "Bans in force, as known to this process.")
	processes = describe("processes", "API processes that were running when the store last answered.")

	memorySubjects  = describe("memory_subjects", "Counters in a shard of the in-memory store.", "shard")
	memoryReclaimed = describe("memory_reclaimed_total", "Expired counters that were removed.", "shard")
	memoryEvicted   = describe("memory_evicted_total", "Unexpired counters that were removed because the shard was full.", "shard")
	memoryCleaned   = describe("memory_cleaned_seconds",
		"Time since the last cleaning of the shard, in seconds; cleaning runs every 10 seconds.", "shard")
)

// Describe implements prometheus.Collector.
func (s stats) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		degraded, denials, hits, misses, rulesInfo, bans, processes, memorySubjects, memoryReclaimed,
		memoryEvicted, memoryCleaned,
	} {
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
