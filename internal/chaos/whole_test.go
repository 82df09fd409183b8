package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
)

// TestLookAtKeys: an item whose keys are whole passes, and each damage is found.
func TestLookAtKeys(t *testing.T) {
	o, err := redis.ParseURL(testenv.StartRedis(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(o)
	defer rdb.Close()
	ctx := t.Context()
	key := func(kind string) string { return itemKey(item, 3, kind) }
	id := "0191d5b0-0000-7000-8000-000000000001"
	for _, tt := range []struct {
		name, want string
		damage     func()
	}{
		{"nothing", "", func() {}},
		{"a lost key", "buyers is a none instead of a hash", func() { rdb.Del(ctx, key("buyers")) }},
		{"a key of another type", "outbox is a string instead of a zset", func() { rdb.Set(ctx, key("outbox"), "x", time.Hour) }},
		{"no sentinel", "returned has no sentinel", func() { rdb.SRem(ctx, key("returned"), sentinel) }},
		{"a sentinel in the wrong place", "holders has no sentinel", func() { rdb.LPush(ctx, key("holders"), "abcdefghijk") }},
		{"a sentinel with a score", "the sentinel has the value", func() { rdb.ZAdd(ctx, key("outbox"), redis.Z{Member: sentinel, Score: 4}) }},
		{"a unit that is no number", `has "x"`, func() { rdb.SAdd(ctx, key("returned"), "x") }},
		{"a buyer's mark without orders", `has "b"`, func() { rdb.HSet(ctx, key("buyers"), "b", "2") }},
		{"a missing number", `next is ""`, func() { rdb.HDel(ctx, key("item"), "next") }},
		{"a count of a process that is no number", `writes:p is "x"`, func() { rdb.HSet(ctx, key("item"), "writes:p", "x") }},
		{"an item that is closed", "still closed", func() { rdb.HSet(ctx, key("item"), "recovering", "token") }},
		{"a key that stays", "keys does not expire", func() { rdb.Persist(ctx, key("keys")) }},
		{"a key of an earlier epoch that stays", "2:item does not expire", func() { rdb.HSet(ctx, itemKey(item, 2, "item"), "next", 1) }},
	} {
		rdb.FlushAll(ctx)
		rdb.HSet(ctx, key("item"), "starts", 1, "ends", 2, "stock", 3, "next", 2, "quota", 1, "in_flight_max", 9, "forget", 8, "writes", 4, "writes:p", 4, "revision", 1, "server", "r")
		rdb.SAdd(ctx, key("returned"), sentinel, 2)
		rdb.HSet(ctx, key("pending"), sentinel, "", id, `{"i":1}`)
		rdb.Do(ctx, "ZADD", key("outbox"), "+inf", sentinel, 17, id)
		rdb.HSet(ctx, key("keys"), sentinel, "", "k", id+" 1")
		rdb.HSet(ctx, key("buyers"), sentinel, "", "b", "1 "+id)
		rdb.RPush(ctx, key("holders"), sentinel, "abcdefghijk")
		rdb.HSet(ctx, key("turns"), sentinel, "", "b", "room used "+id)
		for _, kind := range itemKeys {
			rdb.Expire(ctx, key(kind), time.Hour)
		}
		tt.damage()
		var b breaches
		if err := lookAtKeys(ctx, rdb, item, 3, &b); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if text := strings.Join(b.Examples, "; "); (b.Count > 0) != (tt.want != "") || !strings.Contains(text, tt.want) {
			t.Errorf("%s: %s, want %s", tt.name, text, tt.want)
		}
	}
}
