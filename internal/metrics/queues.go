package metrics

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/asynqkeys"
	"github.com/tidegate/tidegate/internal/recent"
)

// Queues adds the metrics of Asynq's queues with these names, which are reported without prefix. All processes of an installation report
// the same numbers.
func (m *Metrics) Queues(rdb redis.UniversalClient, prefix string, names []string) {
	m.registry.MustRegister(queues{prefix, recent.New(askWithin,
		func(ctx context.Context) ([]queue, error) { return readQueues(ctx, rdb, names) })})
}

type queues struct {
	prefix string
	all    *recent.Source[[]queue]
}

// A queue is the state of one Asynq queue.
type queue struct {
	name      string
	tasks     map[string]int64 // by state
	oldest    time.Duration    // age of the oldest pending task
	processed int64
	failed    int64
}

var (
	queueTasks  = describe("queue_tasks", "Tasks in an Asynq queue, by state.", "queue", "state")
	queueOldest = describe("queue_oldest_pending_seconds",
		"Age of the next pending task of an Asynq queue, in seconds; 0 if there is none.", "queue")
	queueProcessed = describe("queue_processed_total", "Tasks of an Asynq queue that all workers processed, including failed ones.", "queue")
	queueFailed    = describe("queue_failed_total",
		"Failed tasks of an Asynq queue in all workers, excluding orders whose commit will be retried.", "queue")
)

// Describe implements prometheus.Collector.
func (q queues) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{queueTasks, queueOldest, queueProcessed, queueFailed} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. While Redis does not answer, the metrics are left out instead of repeating old values.
func (q queues) Collect(ch chan<- prometheus.Metric) {
	all, _ := found(q.all)
	for i := range all {
		one := &all[i]
		name := strings.TrimPrefix(one.name, q.prefix)
		for state, n := range one.tasks {
			ch <- prometheus.MustNewConstMetric(queueTasks, prometheus.GaugeValue, float64(n), name, state)
		}
		ch <- prometheus.MustNewConstMetric(queueOldest, prometheus.GaugeValue, one.oldest.Seconds(), name)
		ch <- prometheus.MustNewConstMetric(queueProcessed, prometheus.CounterValue, float64(one.processed), name)
		ch <- prometheus.MustNewConstMetric(queueFailed, prometheus.CounterValue, float64(one.failed), name)
	}
}

// readQueues takes two round trips, whatever the length of the queues.
func readQueues(ctx context.Context, rdb redis.UniversalClient, names []string) ([]queue, error) {
	type reply struct {
		tasks             map[string]*redis.IntCmd
		next              *redis.StringCmd
		since             *redis.StringCmd
		processed, failed *redis.StringCmd
	}
	replies := make([]reply, len(names))
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, name := range names {
			r := &replies[i]
			r.tasks = asynqkeys.Count(ctx, p, name)
			r.next = p.LIndex(ctx, asynqkeys.Pending(name), -1)
			r.processed, r.failed = p.Get(ctx, asynqkeys.Key(name, "processed")), p.Get(ctx, asynqkeys.Key(name, "failed"))
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, name := range names {
			if id := replies[i].next.Val(); id != "" {
				replies[i].since = p.HGet(ctx, asynqkeys.Key(name, "t:"+id), "pending_since")
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) { // the task may have been taken in between
		return nil, err
	}
	now := time.Now()
	all := make([]queue, len(names))
	for i, name := range names {
		r, q := &replies[i], &all[i]
		q.name, q.tasks = name, map[string]int64{}
		for state, n := range r.tasks {
			if n.Err() != nil { // a node of a Cluster may be unavailable
				return nil, n.Err()
			}
			q.tasks[state] = n.Val()
		}
		q.processed, _ = r.processed.Int64()
		q.failed, _ = r.failed.Int64()
		if r.since != nil {
			if ns, err := r.since.Int64(); err == nil && ns > 0 {
				q.oldest = max(0, now.Sub(time.Unix(0, ns)))
			}
		}
	}
	return all, nil
}
