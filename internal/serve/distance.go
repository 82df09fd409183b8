package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/config"
)

// roundTripsMost is how often the round trip to Redis fits into REDIS_TIMEOUT, at least. A decision takes up to two round trips
// for the rules and two for the reservation, because its commands wait for those under way, and three more on a new connection.
const roundTripsMost = 3

// decideWithin bounds the decision on an order.
func decideWithin(cfg *config.Config) time.Duration { return 2 * cfg.RedisTimeout }

// ping asks the Redis for decisions. If it does not answer within the timeout, the error states whether it is only far away.
func (r *Redis) ping(ctx context.Context, timeout time.Duration) error {
	err := r.Decisions.Ping(ctx).Err()
	if late := net.Error(nil); !errors.As(err, &late) || !late.Timeout() {
		return err
	}
	allowed := timeout / roundTripsMost
	if trip, failed := roundTrip(ctx, r.Logins, allowed); failed == nil && trip > allowed {
		return fmt.Errorf("%w: a round trip to Redis takes %v, and REDIS_TIMEOUT=%v allows %v: move Redis closer, or raise REDIS_TIMEOUT",
			err, trip, timeout, allowed.Round(time.Millisecond))
	}
	return err
}

// warnOfDistance logs a warning if Redis is too far away for the timeout of decisions.
func (r *Redis) warnOfDistance(ctx context.Context, log *slog.Logger, timeout time.Duration) {
	allowed := timeout / roundTripsMost
	trip, err := roundTrip(ctx, r.Logins, allowed)
	if err != nil {
		log.WarnContext(ctx, "cannot measure the round trip to Redis", slog.Any("error", err))
	} else if trip > allowed {
		log.WarnContext(ctx, "Redis is far away, so decisions may time out: move it closer, or raise REDIS_TIMEOUT to at least three round trips",
			slog.Duration("round_trip", trip), slog.Duration("redis_timeout", timeout))
	}
}

// roundTrip returns the first round trip within enough, or the shortest of three: the first may open a connection. A busy machine makes each
// of them longer, so there are up to ten while the shortest is less than twice as long as enough.
func roundTrip(ctx context.Context, rdb redis.Cmdable, enough time.Duration) (time.Duration, error) {
	shortest := time.Duration(math.MaxInt64)
	for i := 0; i < 3 || i < 10 && shortest < 2*enough; i++ {
		began := time.Now()
		if err := rdb.Ping(ctx).Err(); i == 0 && err != nil {
			return 0, err
		} else if err != nil {
			break
		}
		shortest = min(shortest, time.Since(began).Round(10*time.Microsecond))
		if shortest <= enough {
			break
		}
	}
	return shortest, nil
}
