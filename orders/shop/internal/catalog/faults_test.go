package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/internal/redisscript/scripttest"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/lua"
)

// TestFaults: one refused command or damaged key, in every script. A script that replies that Redis does not have the item, or not
// whole, has failed, and must not have changed anything.
func TestFaults(t *testing.T) {
	var c core.Core
	c.Namespace = "shop"
	keys := append(c.ItemKeys("sale", "item", 2), c.LeadKey("sale", "item"))
	now := time.Now().UnixMilli()
	ahead := now + time.Hour.Milliseconds()
	const seen = "0 p 0"
	ann, bob, cat := strings.Repeat("a", 22), strings.Repeat("b", 22), strings.Repeat("c", 22)
	type step = func(ctx context.Context, rdb *redis.Client) error
	steps := func(all ...step) step {
		return func(ctx context.Context, rdb *redis.Client) error {
			for _, do := range all {
				if err := do(ctx, rdb); err != nil {
					return err
				}
			}
			return nil
		}
	}
	// run runs a script whose reply must contain this text.
	run := func(script *redisscript.Script, want string, args ...any) step {
		return func(ctx context.Context, rdb *redis.Client) error {
			reply := script.Run(ctx, rdb, keys, args...)
			if text := fmt.Sprint(reply); reply.Err() == nil && !strings.Contains(text, want) {
				return fmt.Errorf("replied %s, want %s", text, want)
			}
			return reply.Err()
		}
	}
	fields := func(room string) []any {
		return []any{"switch", "open", "starts", 0, "ends", ahead, "stock", 9, "quota", 4, "in_flight_max", 9, "revision", 1, "room", room}
	}
	// create makes an item of this server with script, whose first arguments are those.
	create := func(script *redisscript.Script, room string, args ...any) step {
		return func(ctx context.Context, rdb *redis.Client) error {
			server := "unknown" // to a user without INFO
			if info, err := rdb.Info(ctx, "server").Result(); err == nil {
				_, rest, _ := strings.Cut(info, "run_id:")
				server = rest[:40]
			}
			return run(script, "1", slices.Concat(args, fields(room), []any{"server", server})...)(ctx, rdb)
		}
	}
	order := func(id, buyer, key string, quantity int) []any {
		return []any{id, buyer, key, quantity, `{"b":"` + id + `"`, ""}
	}
	reserve := func(mode, want string, list ...[]any) step {
		return run(lua.Reserve, want, append([]any{mode, "kept", seen}, slices.Concat(list...)...)...)
	}
	introduce := create(lua.Introduce, "", 2, ahead)
	some := steps(introduce,
		reserve("", "[1 2] 3 [4 5]", order("o1", ann, "k1", 2), order("o2", bob, "", 1), order("o3", cat, "", 2)),
		run(lua.Return, "2", seen, "o3", cat, "1", 2, "4,5"))
	record := func(ctx context.Context, rdb *redis.Client) (string, error) {
		return rdb.HGet(ctx, keys[core.PendingKey], "o1").Result()
	}
	lead := create(lua.Lead, "", 2, "token", ahead)
	load := run(lua.Load, "1", "token", seen, 3, 2, ann+"k1", "o1 1", 2, ann[:11], bob[:11], 2, ann, "1 o1", 1, 2)
	scripttest.Run(t,
		scripttest.Case{Name: "introduce", Call: introduce},
		scripttest.Case{Name: "reserve the first", Prepare: introduce, Call: reserve("", "[1 2] 3]", order("o1", ann, "k1", 2), order("o2", bob, "", 1))},
		scripttest.Case{Name: "reserve returned units", Prepare: some, Call: reserve("", " 6 7]", order("o4", ann, "k2", 1), order("o5", bob, "k1", 3))},
		scripttest.Case{Name: "reserve again", Prepare: some, Call: reserve("", "held", order("o4", ann, "k1", 2))},
		scripttest.Case{Name: "reserve late", Prepare: some, Call: reserve("late", " 6]", order("o4", cat, "", 3))},
		scripttest.Case{
			Name:    "reserve with a turn",
			Prepare: steps(create(lua.Introduce, "room", 2, ahead), run(lua.Admit, "1", ann, 60000, 2, "room", now, seen)),
			Call:    reserve("", "[1 2]", order("o1", ann, "k1", 2)),
		},
		scripttest.Case{Name: "settle", Prepare: some, Call: run(lua.Settle, "", "o1", "o2")},
		scripttest.Case{Name: "reject", Prepare: some, Call: run(lua.Reject, " 2]", "o1", ann, "k1", 2, seen)},
		scripttest.Case{Name: "reject without a key", Prepare: some, Call: run(lua.Reject, " 1]", "o2", bob, "", 1, seen)},
		scripttest.Case{Name: "return", Prepare: some, Call: run(lua.Return, " 3]", seen, "o1", ann, "0", 2, "1,2", "o2", bob, "1", 1, "3")},
		scripttest.Case{Name: "reassign", Prepare: some, Call: func(ctx context.Context, rdb *redis.Client) error {
			has, err := record(ctx, rdb)
			if err != nil {
				return nil // of the test, not of the script
			}
			return run(lua.Reassign, "reassigned", "o1", has, `{"b":"o1"`, now, 3, seen, 1)(ctx, rdb)
		}},
		scripttest.Case{Name: "reassign what is sold out", Prepare: some, Call: func(ctx context.Context, rdb *redis.Client) error {
			has, err := record(ctx, rdb)
			if err != nil {
				return nil
			}
			return run(lua.Reassign, "sold_out", "o1", has, `{"b":"o1"`, now, 9, seen, 1)(ctx, rdb)
		}},
		scripttest.Case{Name: "claim", Prepare: some, Call: run(lua.Claim, "[", -1000, 10)},
		scripttest.Case{Name: "snapshot", Prepare: some, Call: run(lua.Snapshot, "open", 0, 10, seen)},
		scripttest.Case{Name: "find", Prepare: some, Call: run(lua.Find, "pending", "o1", seen)},
		scripttest.Case{Name: "held", Prepare: some, Call: run(lua.Held, "o1", ann, seen)},
		scripttest.Case{Name: "verify", Prepare: some, Call: run(lua.Verify, "9", seen, "o1", ann)},
		scripttest.Case{Name: "supply", Prepare: some, Call: run(lua.Supply, "[", "room", seen, ann)},
		scripttest.Case{Name: "admit", Prepare: some, Call: run(lua.Admit, " 1]", ann, 60000, 2, "room", now, seen)},
		scripttest.Case{Name: "configure", Prepare: some, Call: run(lua.Configure, "1", append([]any{2, ahead}, fields("")...)...)},
		scripttest.Case{Name: "lead", Call: lead},
		scripttest.Case{Name: "load", Prepare: lead, Call: load},
		scripttest.Case{Name: "open", Prepare: steps(lead, load), Call: run(lua.Open, "1", "token", 2, seen, ahead, "stock", 8)},
		scripttest.Case{Name: "look", Prepare: steps(lead, load, run(lua.Open, "1", "token", 1, seen, ahead)), Call: func(ctx context.Context, rdb *redis.Client) error {
			server, err := rdb.HGet(ctx, keys[core.ItemKey], "server").Result()
			if err != nil {
				return nil
			}
			return run(lua.Look, "1 ", server, 2, "token", seen)(ctx, rdb)
		}},
		scripttest.Case{Name: "seal", Prepare: steps(lead, load, reserve("token", " 2]", order("o4", bob, "", 1))), Call: run(lua.Seal, "o4", "token", 0)},
		scripttest.Case{Name: "drop", Prepare: steps(lead, load), Call: run(lua.Drop, "", "token")},
	)
}
