package captcha

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Used remembers which solutions were used. Implementations are safe for concurrent use.
type Used interface {
	// First marks key for ttl, and reports whether it was not marked before. Of any number that ask at once, one is the first. After
	// an error the key may be marked or not.
	First(ctx context.Context, key string, ttl time.Duration) (bool, error)
}

// RedisClient is what RedisUsed needs of a go-redis client.
type RedisClient interface {
	SetArgs(ctx context.Context, key string, value any, a redis.SetArgs) *redis.StatusCmd
}

// RedisUsed is Used in Redis, also on a cluster. Made by NewRedisUsed.
type RedisUsed struct {
	rdb    RedisClient
	prefix string
}

// NewRedisUsed returns marks in rdb, whose keys begin with namespace; empty is "tidegate". The caller owns rdb, whose time-outs bound a verification.
func NewRedisUsed(rdb RedisClient, namespace string) (*RedisUsed, error) {
	if rdb == nil {
		return nil, errors.New("captcha: NewRedisUsed needs a client")
	}
	if namespace == "" {
		namespace = "tidegate"
	}
	if err := checkNamespace(namespace); err != nil {
		return nil, err
	}
	return &RedisUsed{rdb, namespace + ":c:"}, nil
}

// First implements Used.
func (u *RedisUsed) First(ctx context.Context, key string, ttl time.Duration) (bool, error) {
	err := u.rdb.SetArgs(ctx, u.prefix+key, 1, redis.SetArgs{Mode: "NX", TTL: ttl}).Err()
	switch {
	case errors.Is(err, redis.Nil):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("captcha: mark a solution as used: %w", err)
	}
	return true, nil
}

// spend marks a solution as used, or says why it may not be.
func spend(ctx context.Context, u Used, provider, solution string, ttl time.Duration) error {
	first, err := u.First(ctx, usedKey(provider, solution), ttl)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case !first:
		return refused(CauseUsed)
	}
	return nil
}
