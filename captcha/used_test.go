package captcha_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/testenv"
)

// redisServers are those that marks are kept in.
var redisServers = map[string]func(testing.TB) redis.UniversalClient{
	"redis": func(t testing.TB) redis.UniversalClient {
		o, err := redis.ParseURL(testenv.Redis(t))
		if err != nil {
			t.Fatal(err)
		}
		return redis.NewClient(o)
	},
	"cluster": func(t testing.TB) redis.UniversalClient {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: testenv.RedisCluster(t)})
	},
	"miniredis": func(t testing.TB) redis.UniversalClient {
		return redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	},
}

// Of eight requests with one solution one comes in.
func TestOneOfEightWins(t *testing.T) {
	for name, start := range redisServers {
		t.Run(name, func(t *testing.T) {
			rdb := start(t)
			t.Cleanup(func() { rdb.Close() })
			namespace := "t-" + uuid.NewString()
			used := must(captcha.NewRedisUsed(rdb, namespace))
			p := newProof(t, func(o *captcha.ProofOfWorkOptions) { o.Used, o.Lifetime = used, time.Minute })
			token := solved(t, p, login)
			errs := make([]error, 8)
			var all sync.WaitGroup
			for i := range errs {
				all.Go(func() { errs[i] = p.Verify(t.Context(), token, login, nobody) })
			}
			all.Wait()
			won := 0
			for _, err := range errs {
				if err == nil {
					won++
					continue
				}
				wantCause(t, err, captcha.CauseUsed)
			}
			if won != 1 {
				t.Errorf("%d came in", won)
			}

			keys := rdb.Keys(t.Context(), namespace+":*").Val()
			if cluster, ok := rdb.(*redis.ClusterClient); ok {
				keys = keysOf(t, cluster, namespace)
			}
			if len(keys) != 1 {
				t.Fatalf("keys %v", keys)
			}
			if ttl := rdb.PTTL(t.Context(), keys[0]).Val(); ttl <= time.Minute || ttl > 2*time.Minute+time.Second {
				t.Errorf("%s lives %v", keys[0], ttl)
			}
		})
	}
}

func TestRedisIsAway(t *testing.T) {
	server := testenv.StartRedis(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	t.Cleanup(func() { rdb.Close() })
	p := newProof(t, func(o *captcha.ProofOfWorkOptions) { o.Used = must(captcha.NewRedisUsed(rdb, "")) })
	token := solved(t, p, login)
	server.Kill()
	if err := p.Verify(t.Context(), token, login, nobody); !errors.Is(err, captcha.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

func TestNewRedisUsed(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	for _, namespace := range []string{"a b", "{a}"} {
		if _, err := captcha.NewRedisUsed(rdb, namespace); err == nil {
			t.Errorf("%q is accepted", namespace)
		}
	}
	if _, err := captcha.NewRedisUsed(nil, ""); err == nil {
		t.Error("no client is accepted")
	}
}

func keysOf(t *testing.T, c *redis.ClusterClient, namespace string) (keys []string) {
	t.Helper()
	var mu sync.Mutex
	err := c.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		found, err := node.Keys(ctx, namespace+":*").Result()
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, found...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}
