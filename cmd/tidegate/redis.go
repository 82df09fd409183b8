package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/redisclient"
)

// redisWithin is the timeout of a call to Redis, which may be far from the operator.
const redisWithin = 2 * time.Second

// openRedis returns a client of the Redis at a URL, with the certificates in the files that the environment names. The caller closes it.
func openRedis(ctx context.Context, getenv func(string) string, url string) (redis.UniversalClient, error) {
	opts, err := redisclient.Files{CA: getenv("REDIS_CA_FILE"), Cert: getenv("REDIS_CERT_FILE"), Key: getenv("REDIS_KEY_FILE")}.Options(url)
	if err != nil {
		return nil, err
	}
	redisclient.SetTimeout(opts, redisWithin)
	if err := redisclient.DetectCluster(ctx, opts); err != nil {
		return nil, err
	}
	return redisclient.NewUniversal(opts), nil
}
