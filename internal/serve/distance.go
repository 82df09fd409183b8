package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
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
	if trip, failed := roundTrip(ctx, r.Logins); failed == nil && trip > timeout/roundTripsMost {
		return fmt.Errorf("%w: a round trip to Redis takes %v, and REDIS_TIMEOUT=%v allows %v: move Redis closer, or raise REDIS_TIMEOUT",
			err, trip, timeout, (timeout / roundTripsMost).Round(time.Millisecond))
	}
	return err
}

// warnOfDistance logs a warning if Redis is too far away for the timeout of decisions.
func (r *Redis) warnOfDistance(ctx context.Context, log *slog.Logger, timeout time.Duration) {
	trip, err := roundTrip(ctx, r.Logins)
	if err != nil {
		log.WarnContext(ctx, "cannot measure the round trip to Redis", slog.Any("error", err))
	} else if trip > timeout/roundTripsMost {
		log.WarnContext(ctx, "Redis is far away, so decisions may time out: move it closer, or raise REDIS_TIMEOUT to at least three round trips",
			slog.Duration("round_trip", trip), slog.Duration("redis_timeout", timeout))
	}
}

// roundTrip returns the shortest of three round trips: the first may open a connection, and a busy machine makes each of them longer.
func roundTrip(ctx context.Context, rdb redis.Cmdable) (time.Duration, error) {
	trips := make([]time.Duration, 3)
	for i := range trips {
		began := time.Now()
		if err := rdb.Ping(ctx).Err(); err != nil {
			return 0, err
		}
		trips[i] = time.Since(began).Round(10 * time.Microsecond)
	}
	return slices.Min(trips), nil
}
