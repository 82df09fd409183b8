package chaos

import (
	"context"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
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
