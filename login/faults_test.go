package login

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/redisscript/scripttest"
)

// TestFaults: one refused command or damaged key, in both scripts.
func TestFaults(t *testing.T) {
	rs, k := newRuleSet(builtIn(), time.Hour), testKeys(t)
	one := func(do op, device string) *call {
		c := &call{rules: rs, op: do}
		c.keys, c.name = k.keys(k.name("alice"), netip.MustParseAddr("2001:db8::1"), device, Password)
		if do != opCheck {
			c.record = k.record("q", k.hash(string('0'+rune(do))))
		}
		return c
	}
	settlement := func(result byte) *call {
		c := one(opSettle, "")
		c.at, c.result = time.Now().UnixMicro(), result
		return c
	}
	calls := func(calls ...*call) func(context.Context, *redis.Client) error {
		return func(ctx context.Context, rdb *redis.Client) error {
			all := make([]*asked, len(calls))
			for i, c := range calls {
				all[i] = &asked{In: c}
			}
			NewRedisStore(rdb).run(ctx, all)
			for _, a := range all {
				if a.Err != nil {
					return a.Err
				}
			}
			return nil
		}
	}
	var failures []*call
	for range 4 {
		c := one(opReport, "token")
		c.record = ""
		other := one(opReport, "")
		other.record = ""
		failures = append(failures, c, other)
	}
	prepare := calls(failures...)
	scripttest.Run(t,
		scripttest.Case{Name: "welcome", Call: calls(one(opReserve, "")), Heals: true},
		scripttest.Case{Name: "welcome again", Prepare: calls(one(opReserve, "")), Call: calls(one(opReserve, "")), Heals: true},
		scripttest.Case{Name: "reserve", Prepare: prepare, Call: calls(one(opReserve, "token")), Heals: true},
		scripttest.Case{Name: "check", Prepare: prepare, Call: calls(one(opCheck, "")), Heals: true},
		scripttest.Case{Name: "report", Prepare: prepare, Call: calls(one(opReport, "")), Heals: true},
		scripttest.Case{Name: "success", Prepare: prepare, Call: calls(settlement('s')), Heals: true},
		scripttest.Case{Name: "failure", Prepare: prepare, Call: calls(settlement('f')), Heals: true},
		scripttest.Case{Name: "several", Prepare: prepare, Call: calls(one(opReport, ""), settlement('f'), one(opReserve, "token")), Heals: true},
		scripttest.Case{Name: "look", Prepare: prepare, Heals: true, Call: func(ctx context.Context, rdb *redis.Client) error {
			_, _, err := NewRedisStore(rdb).look(ctx, one(opCheck, "token").keys)
			return err
		}},
		scripttest.Case{Name: "forget", Prepare: prepare, Heals: true, Call: func(ctx context.Context, rdb *redis.Client) error {
			return NewRedisStore(rdb).forget(ctx, one(opCheck, "token").keys)
		}},
	)
}
