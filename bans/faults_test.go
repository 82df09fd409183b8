package bans_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/redisscript/scripttest"
)

// TestFaults: one refused command or damaged key, and every kind of news.
func TestFaults(t *testing.T) {
	const key = "bans"
	user := func(name string) bans.Target { return bans.Target{Kind: bans.User, Value: name} }
	order := func(name string) bans.Order {
		return bans.Order{Target: user(name), Reason: "test", For: time.Hour}
	}
	call := func(news bans.News) func(context.Context, *redis.Client) error {
		news.Process, news.History = "p", true
		return func(ctx context.Context, rdb *redis.Client) error {
			s := bans.NewRedisStore(rdb)
			s.SetMax(3)
			_, err := s.Exchange(ctx, key, news)
			return err
		}
	}
	prepare := call(bans.News{Put: []bans.Order{order("a"), order("b")}})
	now := time.Now()
	cases := []scripttest.Case{{Name: "first", Call: prepare, Heals: true}}
	for name, news := range map[string]bans.News{
		"nothing":  {},
		"ban":      {Put: []bans.Order{order("a"), order("c")}},
		"full":     {Put: []bans.Order{order("c"), order("d"), order("e")}},
		"lift":     {Lift: []bans.Target{user("a"), user("z")}},
		"restore":  {Restore: []bans.Ban{{Target: user("r"), Since: now, Until: now.Add(time.Hour), Times: 1}}},
		"recorded": {Logged: []string{"x-1"}, Ask: []bans.Target{user("a"), user("z")}},
	} {
		cases = append(cases, scripttest.Case{Name: name, Prepare: prepare, Call: call(news), Heals: true})
	}
	scripttest.Run(t, cases...)
}
