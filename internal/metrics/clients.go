package metrics

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// A RedisClient is a Redis client of the process.
type RedisClient struct {
	Client redis.UniversalClient
	Trips  func() uint64 // returns its round trips so far
}

// Redis adds the metrics of clients, by name.
func (m *Metrics) Redis(clients map[string]RedisClient) {
	m.registry.MustRegister(redisClients(clients))
}

type redisClients map[string]RedisClient

var (
	redisTrips    = describe("redis_round_trips_total", "Round trips to Redis; commands that share one count once.", "client")
	redisConns    = describe("redis_connections", "Connections to Redis, by state: in_use or idle.", "client", "state")
	redisTimeouts = describe("redis_connection_timeouts_total", "Commands that failed because no connection to Redis was available in time.",
		"client")
)

// Describe implements prometheus.Collector.
func (c redisClients) Describe(ch chan<- *prometheus.Desc) {
	ch <- redisTrips
	ch <- redisConns
	ch <- redisTimeouts
}

// Collect implements prometheus.Collector.
func (c redisClients) Collect(ch chan<- prometheus.Metric) {
	for name, one := range c {
		pool := one.Client.PoolStats()
		idle := min(pool.IdleConns, pool.TotalConns) // the two are not read atomically
		ch <- prometheus.MustNewConstMetric(redisTrips, prometheus.CounterValue, float64(one.Trips()), name)
		ch <- prometheus.MustNewConstMetric(redisConns, prometheus.GaugeValue, float64(pool.TotalConns-idle), name, "in_use")
		ch <- prometheus.MustNewConstMetric(redisConns, prometheus.GaugeValue, float64(idle), name, "idle")
		ch <- prometheus.MustNewConstMetric(redisTimeouts, prometheus.CounterValue, float64(pool.Timeouts), name)
	}
}

// Postgres adds the metrics of a connection pool.
func (m *Metrics) Postgres(pool *pgxpool.Pool) { m.registry.MustRegister(postgresPool{pool}) }

type postgresPool struct{ *pgxpool.Pool }

var (
	postgresMax   = describe("postgres_connections_max", "Maximum number of connections to Postgres of this process.")
	postgresConns = describe("postgres_connections", "Connections to Postgres, by state: in_use, idle or opening.", "state")
	postgresWaits = describe("postgres_waits_total", "Requests for a Postgres connection that had to wait because none was idle.")
	postgresWait  = describe("postgres_waited_seconds_total",
		"Total time that successful requests for a Postgres connection waited, in seconds.")
	postgresNone = describe("postgres_gave_up_total", "Requests for a Postgres connection that were cancelled before one was available.")
)

// Describe implements prometheus.Collector.
func (p postgresPool) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{postgresMax, postgresConns, postgresWaits, postgresWait, postgresNone} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (p postgresPool) Collect(ch chan<- prometheus.Metric) {
	now := p.Stat()
	ch <- prometheus.MustNewConstMetric(postgresMax, prometheus.GaugeValue, float64(now.MaxConns()))
	for state, n := range map[string]int32{"in_use": now.AcquiredConns(), "idle": now.IdleConns(), "opening": now.ConstructingConns()} {
		ch <- prometheus.MustNewConstMetric(postgresConns, prometheus.GaugeValue, float64(n), state)
	}
	ch <- prometheus.MustNewConstMetric(postgresWaits, prometheus.CounterValue, float64(now.EmptyAcquireCount()))
	ch <- prometheus.MustNewConstMetric(postgresWait, prometheus.CounterValue, now.EmptyAcquireWaitTime().Seconds())
	ch <- prometheus.MustNewConstMetric(postgresNone, prometheus.CounterValue, float64(now.CanceledAcquireCount()))
}
