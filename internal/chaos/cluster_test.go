package chaos

import (
	"cmp"
	"context"
	"crypto/rand"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/judge"
	"github.com/tidegate/tidegate/internal/rehearse"
	"github.com/tidegate/tidegate/internal/testenv"
)

// The sale of a round.
const (
	sale  = "rush"
	item  = "ticket"
	space = "tidegate" // namespace of keys and queues
)

// needs is what faults require of the cluster.
type needs uint16

// Requirements. Without any a cluster has its own Redis with appendfsync everysec, and shares its Postgres.
const (
	redisAlone      needs = 1 << iota // a Redis that may be killed and started again
	redisProxied                      // a proxy in front of Redis
	everysec                          // appendfsync everysec
	always                            // appendfsync always
	sentinels                         // a master with a replica, watched by three sentinels
	postgresProxied                   // a proxy in front of Postgres
	postgresOwn                       // a Postgres that may be killed
	postgresClock                     // and whose clock can be set
	clustered                         // a Redis Cluster, which only several hosts have
)

// with returns what both require, or false when no cluster can have both.
func (n needs) with(m needs) (needs, bool) {
	both := n | m
	is := func(all needs) bool { return both&all == all }
	return both, !is(everysec|always) && (both&sentinels == 0 || both&(redisAlone|redisProxied|everysec|always|clustered) == 0)
}

// cluster is two APIs and two workers as processes, with their own servers. Its methods are for the goroutine of the test.
type cluster struct {
	t        testing.TB
	ctx      context.Context
	dir      string // of logs
	bin      string
	common   []string // environment
	token    string
	database string // URL of the database, without a proxy

	redis         *testenv.RedisServer   // nil with sentinels
	sentinel      *testenv.SentinelRedis // nil without
	postgres      *testenv.PostgresServer
	redisProxy    *proxy
	postgresProxy *proxy
	pool          *pgxpool.Pool // connected to Postgres directly

	apis, workers    []*node
	hosts            *hosts   // in place of apis, workers and servers, of a round on several hosts; else nil
	public, internal []string // base URLs of the APIs

	rate       int // of buyers
	wave       time.Duration
	drainTime  time.Duration
	reopenTime time.Duration
	visitors   int            // of a waiting room
	healing    sync.WaitGroup // faults that are not healed yet
	openings   openings
	refused    refusals

	steps       steps
	leaders     leaders
	bought      purchases
	answers     answers
	late        late
	lost        time.Time       // when Redis last lost memory
	losing      time.Time       // until when a fault takes keys from Redis
	clocksWrong bool            // the clock of a process was wrong
	written     testenv.Written // Redis' memory, a second before its end
	snapshot    []byte
	copied      *testenv.RedisServer // a copy of Redis; nil before the first
	foreigners  int                  // processes with a foreign database so far
}

// newCluster starts servers and programs, which stop when the test ends, and waits until all are ready.
func newCluster(t testing.TB, bin, dir string, want needs) *cluster {
	t.Helper()
	c := &cluster{t: t, ctx: context.WithoutCancel(t.Context()), dir: dir, bin: bin, token: rand.Text(), wave: wave}
	redisURL, databaseURL := c.startServers(want)
	c.steps.dir, c.steps.reached = t.TempDir(), make(map[string]int)
	file := filepath.Join(dir, "rules.yaml")
	c.must(os.WriteFile(file, []byte(rehearse.OpenRules), 0o600))
	c.common = []string{
		"REDIS_URL=" + redisURL, "DATABASE_URL=" + databaseURL + "&pool_max_conns=8", "MIGRATE=true", "RULES_FILE=" + file,
		"IDENTITY=header", "SECRET=" + rand.Text() + rand.Text(), "INTERNAL_TOKEN=" + c.token, "NAMESPACE=" + space, "FAILPOINT_DIR=" + c.steps.dir,
	}
	if want&always != 0 {
		c.common = append(c.common, "DURABILITY=fsync")
	}
	for i := range 2 {
		public, internal, probes := freeAddr(), freeAddr(), freeAddr()
		c.apis = append(c.apis, c.start("api", i, "http://"+internal, "LISTEN="+public, "INTERNAL_LISTEN="+internal))
		c.workers = append(c.workers, c.start("worker", i, "http://"+probes, "WORKER_LISTEN="+probes))
		c.public, c.internal = append(c.public, "http://"+public), append(c.internal, "http://"+internal)
	}
	c.must(c.ready(time.Minute))
	c.watchLeaders()
	return c
}

// startServers starts the servers and returns their URLs for the product.
func (c *cluster) startServers(want needs) (redisURL, databaseURL string) {
	switch {
	case want&sentinels != 0:
		c.sentinel = testenv.StartSentinel(c.t)
		redisURL = "redis+sentinel://" + strings.Join(c.sentinel.Sentinels, ",") + "/" + c.sentinel.Master
	case want&always != 0:
		c.redis = testenv.StartRedis(c.t, "--appendfsync", "always")
		redisURL = c.redis.URL()
	default:
		c.redis = testenv.StartRedis(c.t)
		redisURL = c.redis.URL()
	}
	switch {
	case want&postgresClock != 0:
		c.postgres = testenv.StartPostgresWithClock(c.t)
		databaseURL = c.postgres.URL()
	case want&postgresOwn != 0:
		c.postgres = testenv.StartPostgres(c.t)
		databaseURL = c.postgres.URL()
	default:
		databaseURL = testenv.Postgres(c.t)
	}
	c.database = databaseURL
	var err error
	c.pool, err = pgxpool.New(c.ctx, databaseURL)
	c.must(err)
	c.t.Cleanup(c.pool.Close)
	if want&redisProxied != 0 {
		c.redisProxy, redisURL = c.proxied(redisURL)
	}
	if want&postgresProxied != 0 {
		c.postgresProxy, databaseURL = c.proxied(databaseURL)
	}
	return redisURL, databaseURL
}

// proxied starts a proxy for a server, and returns the server's URL through it.
func (c *cluster) proxied(server string) (*proxy, string) {
	u, err := url.Parse(server)
	c.must(err)
	p, err := newProxy(u.Host)
	c.must(err)
	c.t.Cleanup(p.close)
	u.Host = p.Addr()
	return p, u.String()
}

func (c *cluster) start(program string, i int, probes string, env ...string) *node {
	c.t.Helper()
	n, err := newNode(c.ctx, c.dir, program+"-"+strconv.Itoa(i+1), c.program(program), probes+"/readyz", append(env, c.common...)...)
	c.must(err)
	c.t.Cleanup(n.close)
	return n
}

func (c *cluster) program(name string) string { return filepath.Join(c.bin, name) }

// ready waits until all processes are ready.
func (c *cluster) ready(within time.Duration) error {
	ctx, cancel := context.WithTimeout(c.ctx, within)
	defer cancel()
	if c.hosts != nil {
		return c.hosts.ready(ctx)
	}
	for _, n := range c.nodes() {
		if err := n.ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) nodes() []*node { return append(append([]*node{}, c.apis...), c.workers...) }

// rdb returns a client of the current Redis master, or of the Redis Cluster; the caller closes it.
func (c *cluster) rdb() redis.UniversalClient {
	if c.hosts != nil {
		return c.hosts.rdb()
	}
	addr := ""
	if c.sentinel != nil {
		addr = c.sentinel.Addr()
	} else {
		addr = c.redis.Addr()
	}
	return redis.NewClient(&redis.Options{Addr: addr, DialTimeout: 5 * time.Second, DialerRetries: 1, MaxRetries: -1})
}

// keysOf returns the keys that match a pattern, of all masters.
func keysOf(ctx context.Context, rdb redis.UniversalClient, pattern string) (keys []string, err error) {
	all, is := rdb.(*redis.ClusterClient)
	if !is {
		return rdb.Keys(ctx, pattern).Result()
	}
	var mu sync.Mutex
	err = all.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		some, err := master.Keys(ctx, pattern).Result()
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, some...)
		return err
	})
	return keys, err
}

func (c *cluster) must(err error) {
	if err != nil {
		c.t.Helper()
		c.t.Fatalf("chaos: %v", err)
	}
}

func freeAddr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(testenv.FreePort())) }

// late records when an API was stopped while a sale was being recovered: orders that it had accepted may be delivered too late.
// Safe for concurrent use.
type late struct {
	mu     sync.Mutex
	losses []time.Time  // of Redis' memory, guarded by mu
	stops  []judge.Stop // guarded by mu
}

func (l *late) loss(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.losses = append(l.losses, at)
}

func (l *late) stop(s judge.Stop) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stops = append(l.stops, s)
}

// leftOut is how long an API is stopped before a recovery may go on without it: the other processes wait six seconds for its
// heartbeat, whose last one was up to half a second before the stop, and resuming may take a second.
const leftOut = 4 * time.Second

// all returns the stops that a recovery may have ignored: they were long enough, and overlapped with a loss or a recovery.
// Consecutive stops are merged.
func (l *late) all() (long []judge.Stop) {
	l.mu.Lock()
	defer l.mu.Unlock()
	stops := slices.Clone(l.stops)
	slices.SortFunc(stops, func(a, b judge.Stop) int { return cmp.Or(cmp.Compare(a.API, b.API), a.From.Compare(b.From)) })
	for _, s := range stops {
		if n := len(long) - 1; n >= 0 && long[n].API == s.API && s.From.Before(long[n].Until.Add(time.Second)) {
			if s.Until.After(long[n].Until) {
				long[n].Until = s.Until
			}
			continue
		}
		long = append(long, s)
	}
	return slices.DeleteFunc(long, func(s judge.Stop) bool {
		return s.Until.Sub(s.From) < leftOut || !slices.ContainsFunc(l.losses, func(at time.Time) bool {
			return at.After(s.From.Add(-5*time.Second)) && at.Before(s.Until.Add(time.Second))
		})
	})
}
