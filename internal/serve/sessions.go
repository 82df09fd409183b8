package serve

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// sessions stores the page's ended sessions at the keys <namespace>:session:<id>, until they would have expired.
type sessions struct {
	rdb       redis.Cmdable
	namespace string
}

func (s sessions) key(id string) string { return s.namespace + ":session:" + id }

// End implements auth.SessionStore.
func (s sessions) End(ctx context.Context, id string, left time.Duration) error {
	return s.rdb.Set(ctx, s.key(id), "ended", left).Err()
}

// Ended implements auth.SessionStore.
func (s sessions) Ended(ctx context.Context, id string) (bool, error) {
	n, err := s.rdb.Exists(ctx, s.key(id)).Result()
	return n > 0, err
}
