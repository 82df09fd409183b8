package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/admission/store/storetest"
	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/redisclient"
)

func TestConformance(t *testing.T) {
	pipelined := func(rdb redis.UniversalClient) redisscript.Client {
		p, err := redisclient.AutoPipeline(rdb)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	single, masters := dial(t, testenv.Redis(t)), dial(t, cluster(t))
	for name, rdb := range map[string]redisscript.Client{
		"redis": single, "cluster": masters, "cluster auto-pipelined": pipelined(dial(t, cluster(t))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(now func() time.Time) store.Store {
				s := redisstore.New(rdb)
				if now != nil {
					s.SetClock(now)
				}
				return s
			})
		})
	}
}

func cluster(t testing.TB) string { return "redis://" + strings.Join(testenv.RedisCluster(t), ",") }

// dial opens a client that waits longer than production's, so that a busy machine is no outage.
func dial(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	opts, err := redisclient.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	const patience = 10 * time.Second
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout, opts.PoolTimeout = patience, patience, patience, patience
	rdb := redis.NewUniversalClient(opts)
	t.Cleanup(func() { rdb.Close() })
	return rdb
}
