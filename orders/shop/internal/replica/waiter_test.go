package replica

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/batch"
	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/redisclient"
)

// newTestGroups runs a script that writes its argument and returns it.
func newTestGroups(t *testing.T, rdb redis.UniversalClient, timeout time.Duration) *Waiter {
	t.Helper()
	g, err := New(rdb, redisscript.Repeatable("test", `redis.call('SET', KEYS[1], ARGV[1]) return {ARGV[1]}`), timeout)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func testClient(t *testing.T, addrs ...string) redis.UniversalClient {
	t.Helper()
	o, err := redisclient.ParseURL("redis://" + addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	o.Addrs = addrs
	rdb := redis.NewUniversalClient(o)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func TestAGroupFollowsAMasterThatMoves(t *testing.T) {
	cluster := testenv.StartFailoverCluster(t, 10*time.Second)
	rdb := testClient(t, cluster.Addrs...).(*redis.ClusterClient)
	const key = "b" // of the first master, the one with a replica
	if master, err := rdb.MasterForKey(t.Context(), key); err != nil || master.Options().Addr != cluster.Addrs[0] {
		t.Fatalf("%s is kept by %v, %v", key, master, err)
	}
	g := newTestGroups(t, rdb, 5*time.Second)
	for i, value := range []string{"1", "2"} {
		if i > 0 {
			cluster.FailOver()
		}
		reply, err := g.Run(within(t, 5*time.Second), []string{key}, []any{value})
		for redis.HasErrorPrefix(err, "CLUSTERDOWN") { // until the nodes agree
			reply, err = g.Run(within(t, 5*time.Second), []string{key}, []any{value})
		}
		if err != nil || reply.Text() != value {
			t.Fatalf("%v, %v, want %s", reply, err, value)
		}
	}
	if _, err := g.Run(within(t, 50*time.Millisecond), []string{"foo"}, []any{"1"}); !errors.Is(err, errNoReplica) {
		t.Errorf("on a master without a replica: %v", err)
	}
}

func TestAGroupComesBackAfterItsServer(t *testing.T) {
	server := testenv.StartRedis(t)
	replica := server.StartReplica()
	g := newTestGroups(t, testClient(t, server.Addr()), 5*time.Second)
	run := func(d time.Duration) error {
		_, err := g.Run(within(t, d), []string{"key"}, []any{"1"})
		return err
	}
	for name, away := range map[string]struct{ away, back func() }{
		"killed":           {server.Kill, server.Restart},
		"frozen":           {server.Stop, server.Continue},
		"no replica":       {replica.Kill, replica.Restart},
		"a frozen replica": {replica.Stop, replica.Continue},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(5 * time.Second); err != nil {
				t.Fatal(err)
			}
			away.away()
			var g sync.WaitGroup
			for range 20 {
				g.Go(func() {
					if err := run(100 * time.Millisecond); err == nil {
						t.Error("a reply that no replica knows of")
					}
				})
			}
			g.Wait()
			away.back()
			for deadline := time.Now().Add(20 * time.Second); ; {
				err := run(time.Second)
				if err == nil {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("it does not come back: %v", err)
				}
			}
		})
	}
}

func TestWhoIsTooLateIsNotSent(t *testing.T) {
	server := testenv.StartRedis(t)
	rdb := testClient(t, server.Addr())
	g := newTestGroups(t, rdb, 5*time.Second)
	if _, err := g.Run(within(t, 0), []string{"key"}, []any{"1"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want DeadlineExceeded", err)
	}
	if n, err := rdb.Exists(t.Context(), "key").Result(); n != 0 || err != nil {
		t.Errorf("it was sent: %v, %v", n, err)
	}
}

// TestAGroupsConnectionsAreFenced: a connection without the watcher may lead to a server that lost its data.
func TestAGroupsConnectionsAreFenced(t *testing.T) {
	server := testenv.StartRedis(t)
	server.StartReplica()
	o, err := redisclient.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	rdb, err := redisclient.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	g := newTestGroups(t, rdb.UniversalClient, 5*time.Second)
	if _, err := g.Run(within(t, 5*time.Second), []string{"key"}, []any{"1"}); err != nil {
		t.Fatal(err)
	}
	if n := rdb.RunIDs.Generation(); n != 1 {
		t.Errorf("the watcher has met %d servers, not one", n)
	}
}

// A call that a full batcher drops looks like any failure: ErrNotRun would tell the caller's own batcher that it has not run either.
func TestAFullBatcherIsAFailureOfTheCall(t *testing.T) {
	server := testenv.StartRedis(t)
	w := newTestGroups(t, testClient(t, server.Addr()), 5*time.Second)
	if err := redis.NewClient(&redis.Options{Addr: server.Addr()}).Do(t.Context(), "CLIENT", "PAUSE", 60_000, "ALL").Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var (
		wg      sync.WaitGroup
		dropped atomic.Bool
	)
	for range batch.MaxWaiting + batchMax*batchesAtOnce + 100 {
		wg.Go(func() {
			_, err := w.Run(ctx, []string{"k"}, []any{"v"})
			if err == nil || errors.Is(err, batch.ErrNotRun) {
				t.Errorf("Run: %v", err)
			}
			if err != nil && strings.Contains(err.Error(), batch.ErrFull.Error()) {
				dropped.Store(true)
				cancel()
			}
		})
	}
	wg.Wait()
	server.Kill() // paused, it would not stop
	if !dropped.Load() {
		t.Error("the batcher was never full")
	}
}
