package serve

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/keyhash"
)

// fingerprintWithin is how long a start waits for the comparison of secrets, which is optional.
const fingerprintWithin = time.Second

// compareSecret stores a fingerprint of SECRET at the key <namespace>:secret, and logs an error if the API that started last
// had another one. It refuses nothing, so that a change of the secret can be reverted.
func compareSecret(ctx context.Context, cfg *config.Config, rdb redis.Cmdable, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, fingerprintWithin)
	defer cancel()
	own := fingerprint(cfg.Secret)
	last, err := rdb.SetArgs(ctx, cfg.Namespace+":secret", own, redis.SetArgs{Get: true}).Result()
	switch {
	case errors.Is(err, redis.Nil), last == own, cfg.PreviousSecret != "" && last == fingerprint(cfg.PreviousSecret):
	case err != nil:
		log.WarnContext(ctx, "cannot check that all APIs have the same SECRET", slog.Any("error", err))
	default:
		log.ErrorContext(ctx, "SECRET differs from that of the API that started last: both count separately, and refuse each other's "+
			"permits, logins and "+
			"challenges; use the same SECRET in all APIs, and SECRET_PREVIOUS to change it, see Changing SECRET in docs/operations.md",
			slog.String("namespace", cfg.Namespace))
	}
}

// fingerprint distinguishes secrets, and reveals nothing else.
func fingerprint(secret config.Secret) string {
	return keyhash.MAC([]byte(secret), "tidegate fingerprint").String()
}
