package firewall

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/redisscript/scripttest"
)

// TestFaults: one refused command or damaged key.
func TestFaults(t *testing.T) {
	target := bans.Target{Kind: bans.IP, Value: "192.0.2.1"}
	allow := func(kinds ...asking) func(context.Context, *redis.Client) error {
		return func(ctx context.Context, rdb *redis.Client) error {
			for _, kind := range kinds {
				if _, err := newBreaker(rdb, "shop").allow(ctx, target, time.Minute, kind, 2); err != nil {
					return err
				}
			}
			return nil
		}
	}
	full := allow(first, first)
	opened := allow(first, first, first)
	scripttest.Run(t,
		scripttest.Case{Name: "first", Call: allow(first), Heals: true},
		scripttest.Case{Name: "second", Prepare: allow(first), Call: allow(first), Heals: true},
		scripttest.Case{Name: "opens", Prepare: full, Call: allow(first), Heals: true},
		scripttest.Case{Name: "waits", Prepare: full, Call: allow(again), Heals: true},
		scripttest.Case{Name: "open", Prepare: opened, Call: allow(again), Heals: true},
		scripttest.Case{Name: "free", Prepare: full, Call: allow(free), Heals: true},
		scripttest.Case{Name: "free while open", Prepare: opened, Call: allow(free), Heals: true},
	)
}
