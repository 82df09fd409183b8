package main

import (
	"context"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	golimiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/tidegate/tidegate/redisclient"
	"github.com/ulule/limiter/v3"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
	"golang.org/x/time/rate"
)

// onRedis is a peer with go-redis' default client settings, as in the peers' documentation.
func onRedis(name string, open func(rdb redis.UniversalClient, limit int, window time.Duration) (ask, error)) contender {
	return contender{name, func(r *run, limit int, window time.Duration) (ask, func(), error) {
		rdb := r.redis.client()
		ask, err := open(rdb, limit, window)
		return ask, func() { _ = rdb.Close() }, err
	}}
}

var redisRate = onRedis("redis_rate v10", openRedisRate)

func openRedisRate(rdb redis.UniversalClient, limit int, window time.Duration) (ask, error) {
	l, quota := redis_rate.NewLimiter(rdb), redis_rate.Limit{Rate: limit, Burst: limit, Period: window}
	return func(ctx context.Context, subject string) (bool, error) {
		res, err := l.Allow(ctx, subject, quota)
		return err == nil && res.Allowed > 0, err
	}, nil
}

// redisRatePipelined is redis_rate on our client, to show what the client contributes.
var redisRatePipelined = contender{"redis_rate v10, our client", func(r *run, limit int, window time.Duration) (ask, func(), error) {
	opts, err := redisclient.ParseURL(r.redis.url())
	if err != nil {
		return nil, nil, err
	}
	opts.ReadTimeout, opts.WriteTimeout, opts.PoolTimeout = decideTimeout, decideTimeout, decideTimeout
	rdb := redis.NewUniversalClient(opts)
	shared, err := redisclient.AutoPipeline(rdb)
	if err != nil {
		return nil, nil, err
	}
	ask, err := openRedisRate(shared, limit, window)
	return ask, func() { _ = rdb.Close() }, err
}}

var throttledRedis = onRedis("throttled v2", func(rdb redis.UniversalClient, limit int, window time.Duration) (ask, error) {
	store, err := goredisstore.NewCtx(rdb, "throttled:")
	if err != nil {
		return nil, err
	}
	// A total burst of limit: the first unit is not part of MaxBurst.
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(limit, window), MaxBurst: limit - 1}
	l, err := throttled.NewGCRARateLimiterCtx(store, quota)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, subject string) (bool, error) {
		limited, _, err := l.RateLimitCtx(ctx, subject, 1)
		return err == nil && !limited, err
	}, nil
})

var ululeRedis = onRedis("ulule/limiter v3", func(rdb redis.UniversalClient, limit int, window time.Duration) (ask, error) {
	store, err := ululeredis.NewStore(rdb)
	return ulule(store, limit, window), err
})

func ulule(store limiter.Store, limit int, window time.Duration) ask {
	l := limiter.New(store, limiter.Rate{Period: window, Limit: int64(limit)})
	return func(ctx context.Context, subject string) (bool, error) {
		res, err := l.Get(ctx, subject)
		return err == nil && !res.Reached, err
	}
}

var ululeMemory = contender{"ulule/limiter v3, memory", func(_ *run, limit int, window time.Duration) (ask, func(), error) {
	return ulule(ululememory.NewStore(), limit, window), func() {}, nil
}}

var goLimiter = contender{"go-limiter memorystore", func(_ *run, limit int, window time.Duration) (ask, func(), error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(limit), Interval: window})
	if err != nil {
		return nil, nil, err
	}
	return takeFrom(store), func() { _ = store.Close(context.Background()) }, nil
}}

func takeFrom(store golimiter.Store) ask {
	return func(ctx context.Context, subject string) (bool, error) {
		_, _, _, ok, err := store.Take(ctx, subject)
		return ok, err
	}
}

// rateMap is a common self-written limiter. It never removes subjects.
var rateMap = contender{"map of x/time/rate", func(_ *run, limit int, window time.Duration) (ask, func(), error) {
	var mu sync.Mutex
	limiters := map[string]*rate.Limiter{}
	return func(_ context.Context, subject string) (bool, error) {
		mu.Lock()
		l := limiters[subject]
		if l == nil {
			l = rate.NewLimiter(rate.Every(window/time.Duration(limit)), limit)
			limiters[subject] = l
		}
		mu.Unlock()
		return l.Allow(), nil
	}, func() {}, nil
}}
