package bans_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/redisclient"
)

// A clock stands still until a test sets it.
type clock struct {
	mu  sync.Mutex
	now time.Time // guarded by mu
}

var epoch = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func newClock() *clock { return &clock{now: epoch} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) At(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = epoch.Add(d)
}

// opener opens a store that is empty for a list with a unique namespace. A nil clock means the store's own.
type opener func(clk *clock) bans.Store

// eachStore runs test over every store.
func eachStore(t *testing.T, test func(t *testing.T, open opener)) {
	for _, kind := range []struct {
		name string
		open func(t testing.TB) opener
	}{
		{"memory", func(testing.TB) opener { return func(clk *clock) bans.Store { return memory(clk) } }},
		{"redis", func(t testing.TB) opener { return overRedis(dial(t, testenv.Redis(t))) }},
		{"cluster", func(t testing.TB) opener { return overRedis(dial(t, cluster(t))) }},
		{"cluster auto-pipelined", func(t testing.TB) opener {
			p, err := redisclient.AutoPipeline(dial(t, cluster(t)))
			if err != nil {
				t.Fatal(err)
			}
			return overRedis(p)
		}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			test(t, kind.open(t))
		})
	}
}

func memory(clk *clock) *bans.MemoryStore {
	if clk == nil {
		return bans.NewMemoryStore(nil)
	}
	return bans.NewMemoryStore(clk.Now)
}

func overRedis(rdb redisscript.Client) opener {
	return func(clk *clock) bans.Store {
		s := bans.NewRedisStore(rdb)
		if clk != nil {
			s.SetClock(clk.Now)
		}
		return s
	}
}

func cluster(t testing.TB) string { return "redis://" + strings.Join(testenv.RedisCluster(t), ",") }

const (
	ms       = time.Millisecond
	patience = 10 * time.Second
)

// dial opens a client that waits longer than production's, so that a busy machine is no outage.
func dial(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	opts, err := redisclient.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout, opts.PoolTimeout = patience, patience, patience, patience
	rdb := redis.NewUniversalClient(opts)
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// silent is the URL of a server that accepts connections and never replies.
func silent(t testing.TB) string {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return "redis://" + l.Addr().String()
}

var namespaces atomic.Int64

// namespace returns one that no other test has, so that tests share a server.
func namespace() string { return fmt.Sprintf("test-%d-%d", time.Now().UnixNano(), namespaces.Add(1)) }

func newList(store bans.Store) *bans.List { return bans.NewList(store, bans.Options{}) }

func listIn(store bans.Store, ns string) *bans.List {
	return bans.NewList(store, bans.Options{Namespace: ns, Timeout: patience})
}

func ban(t testing.TB, l *bans.List, kind bans.Kind, value string, length time.Duration) bans.Ban {
	t.Helper()
	b, err := l.Ban(t.Context(), bans.Order{Target: bans.Target{Kind: kind, Value: value}, Reason: "test", For: length})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func lift(t testing.TB, l *bans.List, kind bans.Kind, value string) bool {
	t.Helper()
	ok, err := l.Lift(t.Context(), bans.Target{Kind: kind, Value: value})
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func exchange(t testing.TB, lists ...*bans.List) {
	t.Helper()
	for _, l := range lists {
		if err := l.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// excludes reports whether the list excludes a caller with this user or address.
func excludes(l *bans.List, user, address string) bool {
	var ip netip.Addr
	if address != "" {
		ip = netip.MustParseAddr(address)
	}
	b, _ := l.Find(user, "", ip)
	return b != nil
}

// running runs the list until stop is called.
func running(t *testing.T, l *bans.List) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}
