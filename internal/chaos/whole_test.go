package chaos

import (
	"context"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
)

// sentinel is the element that every collection of an item has.
const sentinel = "-"

// Forms of what the keys of an item contain.
var (
	wholeNumber = regexp.MustCompile(`^\d{1,16}$`)
	orderID     = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	ofKey       = regexp.MustCompile(`^\S+ [1-9]\d*$`) // order, quantity
	ofBuyer     = regexp.MustCompile(`^\d+( \S+)+$`)   // units held, their orders
	ofTurn      = regexp.MustCompile(`^\S+ \S+ \S+$`)
	ofHolder    = regexp.MustCompile(`^\S{11}$`)
)

// typesOf are the types of the keys of an item.
var typesOf = map[string]string{
	"item": "hash", "returned": "set", "pending": "hash", "outbox": "zset", "keys": "hash", "buyers": "hash", "holders": "list", "turns": "hash",
}

// lookAtKeys is I25: in the current epoch an item has all keys, each of its type, with its sentinel, with values of the right form and with
// an expiry; keys of other epochs have an expiry too.
func lookAtKeys(ctx context.Context, rdb redis.UniversalClient, name string, epoch int64, b *breaches) error {
	for _, kind := range itemKeys {
		key := itemKey(name, epoch, kind)
		is, err := rdb.Type(ctx, key).Result()
		if err != nil {
			return err
		}
		if is != typesOf[kind] {
			b.wrong("%s is a %s instead of a %s", key, is, typesOf[kind])
			continue
		}
		elements, values, err := contentOf(ctx, rdb, key, is)
		if err != nil {
			return err
		}
		if kind == "item" {
			lookAtItem(key, elements, values, b)
			continue
		}
		marked := false
		for i, e := range elements {
			v := values[i]
			if e == sentinel {
				marked = true
				if want := map[bool]string{true: "+inf"}[kind == "outbox"]; v != want {
					b.wrong("%s: the sentinel has the value %q instead of %q", key, v, want)
				}
			} else if !wellFormed(kind, e, v) {
				b.wrong("%s has %q: %q", key, e, v)
			}
		}
		if !marked || kind == "holders" && elements[0] != sentinel {
			b.wrong("%s has no sentinel in its place", key)
		}
	}
	keys, err := keysOf(ctx, rdb, space+":{"+sale+":"+name+"}:*")
	if err != nil {
		return err
	}
	for _, key := range keys {
		if left, err := rdb.PTTL(ctx, key).Result(); err != nil {
			return err
		} else if left == time.Duration(-1) {
			b.wrong("%s does not expire", key)
		}
	}
	return nil
}

// contentOf returns the elements of a key, and what each of them has: the value of a field, a score, or "".
func contentOf(ctx context.Context, rdb redis.UniversalClient, key, kind string) (elements, values []string, err error) {
	switch kind {
	case "hash":
		all, err := rdb.HGetAll(ctx, key).Result()
		for e, v := range all {
			elements, values = append(elements, e), append(values, v)
		}
		return elements, values, err
	case "zset":
		all, err := rdb.ZRangeWithScores(ctx, key, 0, -1).Result()
		for _, z := range all {
			score := strconv.FormatFloat(z.Score, 'f', -1, 64)
			if math.IsInf(z.Score, 1) {
				score = "+inf"
			}
			elements, values = append(elements, z.Member.(string)), append(values, score)
		}
		return elements, values, err
	case "set":
		elements, err = rdb.SMembers(ctx, key).Result()
	default:
		elements, err = rdb.LRange(ctx, key, 0, -1).Result()
	}
	return elements, make([]string, len(elements)), err
}

// lookAtItem checks the fields of an item that is open.
func lookAtItem(key string, fields, values []string, b *breaches) {
	has := make(map[string]string)
	numbers := []string{"starts", "ends", "stock", "next", "quota", "in_flight_max", "forget", "writes", "revision"}
	for i, f := range fields {
		if has[f] = values[i]; strings.HasPrefix(f, "writes:") { // those of one process
			numbers = append(numbers, f)
		}
	}
	for _, f := range numbers {
		if !wholeNumber.MatchString(has[f]) {
			b.wrong("%s: %s is %q", key, f, has[f])
		}
	}
	if has["server"] == "" {
		b.wrong("%s has no server", key)
	}
	if slices.Contains(fields, "recovering") {
		b.wrong("%s is still closed by leader %s", key, has["recovering"])
	}
}

// wellFormed reports whether an element of a collection, and what it has, have the right form.
func wellFormed(kind, e, v string) bool {
	switch kind {
	case "returned":
		return wholeNumber.MatchString(e)
	case "pending":
		return orderID.MatchString(e) && json.Valid([]byte(v))
	case "outbox":
		return orderID.MatchString(e) && wholeNumber.MatchString(v)
	case "keys":
		return ofKey.MatchString(v)
	case "buyers":
		return ofBuyer.MatchString(v)
	case "holders":
		return ofHolder.MatchString(e)
	}
	return ofTurn.MatchString(v)
}

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
