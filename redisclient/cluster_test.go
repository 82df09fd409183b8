package redisclient_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/redisclient"
)

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
