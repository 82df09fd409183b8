package redisclient_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/redisclient"
)

// testTimeout is long, for machines that are busy with other work.
const testTimeout = 5 * time.Second

// TestDetectCluster: one address of a cluster is enough, and a client that was not made for a cluster refuses it.
func TestDetectCluster(t *testing.T) {
	node := "redis://" + testenv.RedisCluster(t)[0]
	for url, want := range map[string]bool{node: true, testenv.Redis(t): false} {
		opts, err := redisclient.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		redisclient.SetTimeout(opts, testTimeout)
		unaware, err := redisclient.New(opts)
		if err != nil {
			t.Fatal(err)
		}
		defer unaware.Close()
		if err := unaware.Ping(t.Context()).Err(); errors.Is(err, redisclient.ErrClusterNode) != want || !want && err != nil {
			t.Errorf("%s: a client of one server: %v", url, err)
		}
		if err := redisclient.DetectCluster(t.Context(), opts); err != nil || opts.IsClusterMode != want {
			t.Errorf("%s: cluster %v, %v", url, opts.IsClusterMode, err)
		}
		client, err := redisclient.New(opts)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		for i := range 20 { // of all masters
			if err := client.Set(t.Context(), "detected-"+strconv.Itoa(i), 1, time.Minute).Err(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestADeadMasterOfAClusterIsLeft: a master that has died redirects nobody. Clients find its replica all the same, soon after
// it has taken over.
func TestADeadMasterOfAClusterIsLeft(t *testing.T) {
	cluster := testenv.StartFailoverCluster(t)
	client, err := redisclient.Open("redis://" + strings.Join(cluster.Addrs, ","))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	key := ""
	first := redis.NewClient(&redis.Options{Addr: cluster.Addrs[0]})
	defer first.Close()
	for i := 0; ; i++ { // a key of the master with a replica
		key = strconv.Itoa(i)
		if first.Set(t.Context(), key, 1, 0).Err() == nil {
			break
		}
	}
	for name, c := range map[string]redis.Cmdable{"decisions": client, "batched": client.Batched, "queue": client.Queue()} {
		if err := c.Set(t.Context(), key, 1, 0).Err(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	cluster.KillMaster()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	for name, c := range map[string]redis.Cmdable{"decisions": client, "batched": client.Batched, "queue": client.Queue()} {
		for {
			err := c.Set(ctx, key, 2, 0).Err()
			if err == nil {
				break
			}
			if !periodic.Pause(ctx, 50*time.Millisecond) {
				t.Fatalf("%s: 15 s after the failover: %v", name, err)
			}
		}
	}
}
