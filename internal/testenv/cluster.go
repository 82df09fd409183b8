package testenv

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const clusterMasters = 3

// RedisCluster returns the addresses of this test binary's Redis Cluster: three masters without replicas.
func RedisCluster(t testing.TB) []string {
	t.Helper()
	return addrsOf(sharedCluster.get(t, func() ([]*server, error) { return newCluster() }))
}

func addrsOf(servers []*server) []string {
	addrs := make([]string, len(servers))
	for i, s := range servers {
		addrs[i] = s.addr()
	}
	return addrs
}

// A FailoverCluster is a Redis Cluster for one test: three masters, the first of which has a replica. It is not safe for
// concurrent use.
type FailoverCluster struct {
	Addrs   []string // of the initial masters
	t       testing.TB
	master  *server // the one with a replica
	replica *server
}

// nodeTimeout is the silence after which a node is considered failed: shorter than Redis' default of 15 s, and longer than most busy
// machines pause.
const nodeTimeout = 2 * time.Second

// StartFailoverCluster starts a cluster, which ends with the test. A test that kills nothing can pass a longer node timeout, so that
// a busy machine does not cause a failover. Nodes repeat a failed election after four times the node timeout.
func StartFailoverCluster(t testing.TB, timeout ...time.Duration) *FailoverCluster {
	t.Helper()
	args := []string{"--cluster-node-timeout", strconv.FormatInt(append(timeout, nodeTimeout)[0].Milliseconds(), 10)}
	masters, err := newCluster(args...)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	for _, s := range masters {
		t.Cleanup(s.remove)
	}
	s, err := newReplica(masters[0].addr(), args...)
	if err != nil {
		t.Fatalf("testenv: replica: %v", err)
	}
	t.Cleanup(s.remove)
	if err := knowReplica(masters); err != nil {
		t.Fatalf("testenv: replica: %v", err)
	}
	return &FailoverCluster{Addrs: addrsOf(masters), t: t, master: masters[0], replica: s}
}

// knowReplica waits until all masters have registered the first one's replica: otherwise they would not vote for it.
func knowReplica(masters []*server) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	first := redisClient(masters[0].addr())
	defer first.Close()
	id, err := first.Do(ctx, "CLUSTER", "MYID").Text()
	if err != nil {
		return err
	}
	for _, s := range masters {
		c := redisClient(s.addr())
		defer c.Close()
		for {
			replicas, err := c.Do(ctx, "CLUSTER", "REPLICAS", id).Slice()
			if err == nil && len(replicas) == 1 {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s has not learned the change: %w", s.addr(), ctx.Err())
			case <-time.After(pollInterval):
			}
		}
	}
	return nil
}

// KillMaster kills the first master, and waits until the others have detected it and the replica has taken over.
func (c *FailoverCluster) KillMaster() {
	c.t.Helper()
	c.master.kill()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	rdb := redisClient(c.replica.addr())
	defer rdb.Close()
	if err := awaitInfo(ctx, rdb, "role:master"); err != nil {
		c.t.Fatalf("testenv: kill master: %v", err)
	}
}

// FailOver makes the replica the master by a coordinated failover, which loses nothing, and waits for it.
func (c *FailoverCluster) FailOver() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	rdb := redisClient(c.replica.addr())
	defer rdb.Close()
	for {
		if err := rdb.ClusterFailover(ctx).Err(); err != nil && !strings.Contains(err.Error(), "only to replicas") { // it is already the master
			c.t.Fatalf("testenv: failover: %v", err)
		}
		attempt, cancel := context.WithTimeout(ctx, 6*time.Second) // nodes give up after 5 s without agreement
		err := awaitInfo(attempt, rdb, "role:master")
		cancel()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			c.t.Fatalf("testenv: failover: %v", err)
		}
	}
}

// newCluster starts three masters, assigns each a third of the slots and connects them.
func newCluster(args ...string) ([]*server, error) {
	const slots = 16384
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	clients := make([]*redis.Client, clusterMasters)
	servers := make([]*server, clusterMasters)
	for i := range clusterMasters {
		s, err := newRedis("", append(args, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf")...)
		if err != nil {
			return nil, err
		}
		servers[i], clients[i] = s, redisClient(s.addr())
		defer clients[i].Close()
		var own []int
		for slot := i * slots / clusterMasters; slot < (i+1)*slots/clusterMasters; slot++ {
			own = append(own, slot)
		}
		if err := clients[i].ClusterAddSlots(ctx, own...).Err(); err != nil {
			return nil, fmt.Errorf("cluster: %w", err)
		}
		// Equal epochs would collide, and the nodes would take seconds to resolve that.
		if err := clients[i].Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return nil, fmt.Errorf("cluster: %w", err)
		}
		if i > 0 {
			if err := clients[0].ClusterMeet(ctx, "127.0.0.1", strconv.Itoa(s.port)).Err(); err != nil {
				return nil, fmt.Errorf("cluster: %w", err)
			}
		}
	}
	for _, c := range clients {
		if err := awaitCluster(ctx, c); err != nil {
			return nil, err
		}
	}
	return servers, nil
}

// awaitCluster waits until a node has an owner for every slot.
func awaitCluster(ctx context.Context, c *redis.Client) error {
	for !clusterReady(ctx, c) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("cluster nodes do not agree: %w", ctx.Err())
		case <-time.After(pollInterval):
		}
	}
	return nil
}

func clusterReady(ctx context.Context, c *redis.Client) bool {
	info, err := c.ClusterInfo(ctx).Result()
	if err != nil || !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_slots_ok:16384") {
		return false
	}
	owners, err := c.Do(ctx, "CLUSTER", "SLOTS").Slice() // CLUSTER SHARDS requires Redis 7
	return err == nil && len(owners) == clusterMasters
}

// newReplica starts a replica of the master at addr, and waits until it has its data and considers the cluster complete: one that is
// promoted within two seconds of its start, before it does, refuses all commands for the rest of them.
func newReplica(addr string, args ...string) (*server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	master := redisClient(addr)
	defer master.Close()
	id, err := master.Do(ctx, "CLUSTER", "MYID").Text()
	if err != nil {
		return nil, err
	}
	s, err := newRedis("", append(args, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf")...)
	if err != nil {
		return nil, err
	}
	rdb := redisClient(s.addr())
	defer rdb.Close()
	host, port, _ := strings.Cut(addr, ":")
	if err := rdb.ClusterMeet(ctx, host, port).Err(); err != nil {
		return nil, err
	}
	for rdb.ClusterReplicate(ctx, id).Err() != nil { // fails until the nodes have met
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("nodes do not connect: %w", ctx.Err())
		case <-time.After(pollInterval):
		}
	}
	if err := awaitInfo(ctx, rdb, "master_link_status:up"); err != nil {
		return nil, err
	}
	return s, awaitCluster(ctx, rdb)
}
