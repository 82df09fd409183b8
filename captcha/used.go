package captcha

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Used records used solutions. Implementations are safe for concurrent use.
type Used interface {
	// First records key for ttl, and reports whether it was unrecorded before. Of concurrent calls exactly one is the first. After an
	// error the key may be recorded or not.
	First(ctx context.Context, key string, ttl time.Duration) (bool, error)
}

// RedisClient is the part of a go-redis client that RedisUsed needs.
type RedisClient interface {
	SetArgs(ctx context.Context, key string, value any, a redis.SetArgs) *redis.StatusCmd
}

// RedisUsed implements Used in Redis, including Redis Cluster. Make it with NewRedisUsed.
type RedisUsed struct {
	rdb    RedisClient
	prefix string
}

// NewRedisUsed returns a Used in rdb, with namespace as the prefix of all keys; empty means "tidegate". The caller closes rdb, whose
// timeouts bound a verification.
func NewRedisUsed(rdb RedisClient, namespace string) (*RedisUsed, error) {
	if rdb == nil {
		return nil, errors.New("captcha: NewRedisUsed requires a client")
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
		return false, fmt.Errorf("captcha: record a used solution: %w", err)
	}
	return true, nil
}

// spend records that a solution was used, or returns why it cannot.
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
