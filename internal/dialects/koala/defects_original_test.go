package koala_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/dialects/koala"
)

// An original decides as Koala does, with its defects: what is proved of ours has to fail here, or it proves nothing. It knows conditions such as
// act=ask, act=a,b{~} and uid=+.
type original struct {
	rdb   *redis.Client
	rules []originalRule
	now   func() time.Time // the clock of the host, in the zone of the host

	// What happens between two steps that nothing holds together. Nil: nothing.
	counted  func(step string)
	updating func()         // before an update that a caller does not wait for
	updates  sync.WaitGroup // those
}

type originalRule struct {
	method string
	keys   map[string]string // conditions by parameter
	number map[string]int    // base, time, count, return
}

// newOriginal reads rules, one a line.
func newOriginal(t testing.TB, rdb *redis.Client, rules string) *original {
	t.Helper()
	o := &original{rdb: rdb, now: time.Now}
	for line := range strings.Lines(rules) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), ":")
		groups := strings.Split(line, "] [")
		if len(groups) != 4 {
			t.Fatalf("%q is no rule", line)
		}
		for i := range groups {
			groups[i] = strings.Trim(groups[i], " []")
		}
		r := originalRule{groups[0], map[string]string{}, map[string]int{}}
		for _, condition := range strings.Split(groups[1], ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(condition), "=")
			r.keys[name] = value
		}
		for _, threshold := range strings.Split(groups[2]+";"+groups[3], ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(threshold), "=")
			r.number[name], _ = strconv.Atoi(value)
		}
		o.rules = append(o.rules, r)
	}
	return o
}

func (r *originalRule) matches(params koala.Params) bool {
	for name, want := range r.keys {
		want, _ = strings.CutSuffix(want, "{~}")
		if v := params[name]; v == "" || want != "+" && !slices.Contains(strings.Split(want, ","), v) {
			return false
		}
	}
	return true
}

func (r *originalRule) key(params koala.Params) string {
	key := "r" + strconv.Itoa(r.number["return"])
	for _, name := range slices.Sorted(maps.Keys(r.keys)) {
		if !strings.HasSuffix(r.keys[name], "{~}") {
			key += "|" + params[name]
		}
	}
	return strings.Trim(key, "|")
}

// exceeded looks and counts nothing. An error of Redis counts for nothing either.
func (o *original) exceeded(ctx context.Context, r *originalRule, key string) bool {
	switch r.method {
	case "direct":
		return true
	case "count":
		n, err := o.rdb.Get(ctx, key).Int()
		return err == nil && n >= r.number["count"]
	case "base":
		n, err := o.rdb.Get(ctx, key).Int()
		if err != nil || n < r.number["base"] {
			return false
		}
		n, err = o.rdb.Get(ctx, key+"_B").Int()
		return err == nil && n >= r.number["count"]
	}
	n, err := o.rdb.LLen(ctx, key).Result()
	if err != nil || n <= int64(r.number["count"]) {
		return false
	}
	edge, err := o.rdb.LIndex(ctx, key, int64(r.number["count"])).Int64()
	o.trim(ctx, r, key, n)
	return err == nil && o.now().Unix()-edge <= int64(r.number["time"])
}

// trim shortens a list that was so long when it was looked at.
func (o *original) trim(ctx context.Context, r *originalRule, key string, long int64) {
	for ; long > int64(r.number["count"])+1; long-- {
		o.rdb.RPop(ctx, key)
	}
}

func (o *original) browse(ctx context.Context, params koala.Params) (code int) {
	for i := range o.rules {
		if r := &o.rules[i]; r.matches(params) && o.exceeded(ctx, r, r.key(params)) {
			return r.number["return"]
		}
	}
	return 0
}

// complete does not support leak rules.
func (o *original) complete(ctx context.Context, params koala.Params, write bool) (codes []int) {
	for i := range o.rules {
		if r := &o.rules[i]; r.matches(params) && r.method != "leak" && o.exceeded(ctx, r, r.key(params)) {
			codes = append(codes, r.number["return"])
		}
	}
	if write && len(codes) == 0 {
		_ = o.write(ctx, params)
	}
	return codes
}

// multi supports count rules only.
func (o *original) multi(ctx context.Context, params koala.Params) (code int) {
	for i := range o.rules {
		if r := &o.rules[i]; r.matches(params) && r.method == "count" && o.exceeded(ctx, r, r.key(params)) {
			return r.number["return"]
		}
	}
	return 0
}

// writeThrough answers, and counts in the background. Who is refused is counted too.
func (o *original) writeThrough(ctx context.Context, params koala.Params) (code int) {
	code = o.browse(ctx, params)
	o.update(ctx, params)
	return code
}

// update answers OK, and counts in the background.
func (o *original) update(ctx context.Context, params koala.Params) {
	o.updates.Go(func() {
		if o.updating != nil {
			o.updating()
		}
		_ = o.write(ctx, params) // it would be logged
	})
}

func (o *original) write(ctx context.Context, params koala.Params) error {
	var all error
	for i := range o.rules {
		r := &o.rules[i]
		if !r.matches(params) || r.method == "direct" {
			continue
		}
		all = errors.Join(all, o.count(ctx, r, r.key(params)))
	}
	return all
}

func (o *original) count(ctx context.Context, r *originalRule, key string) error {
	now, length := o.now(), time.Duration(r.number["time"])*time.Second
	switch r.method {
	case "leak":
		if err := o.rdb.LPush(ctx, key, now.Unix()).Err(); err != nil {
			return err
		}
		o.step("pushed")
		return o.rdb.Expire(ctx, key, length).Err()
	case "base":
		y, m, d := now.Date()
		n, err := o.increment(ctx, key, time.Date(y, m, d, 23, 59, 59, 0, time.UTC).Sub(now))
		if err != nil || n < r.number["base"] {
			return err
		}
		_, err = o.increment(ctx, key+"_B", length)
		return err
	}
	if r.number["time"] == 86400 {
		y, m, d := now.Date() // of the host
		shanghai, err := time.LoadLocation("Asia/Shanghai")
		if err != nil {
			return err
		}
		length = time.Date(y, m, d, 23, 59, 59, 0, shanghai).Sub(now)
	}
	_, err := o.increment(ctx, key, length)
	return err
}

// increment returns 0 for the first one.
func (o *original) increment(ctx context.Context, key string, length time.Duration) (int, error) {
	exists, err := o.rdb.Exists(ctx, key).Result()
	if err != nil {
		return 0, err
	}
	o.step("exists " + strconv.FormatInt(exists, 10))
	if exists == 0 {
		return 0, o.rdb.Do(ctx, "SETEX", key, int64(length/time.Second), 1).Err()
	}
	n, err := o.rdb.Incr(ctx, key).Result()
	return int(n), err
}

func (o *original) step(name string) {
	if o.counted != nil {
		o.counted(name)
	}
}

// pass lets time pass in Redis: whatever has no longer to live is gone.
func (o *original) pass(ctx context.Context, t testing.TB, d time.Duration) {
	t.Helper()
	keys, err := o.rdb.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		left := o.rdb.PTTL(ctx, key).Val()
		switch {
		case left < 0: // it lives for ever
		case left <= d+slack && d > 0 && left-d < slack:
			o.rdb.Del(ctx, key)
		default:
			o.rdb.PExpire(ctx, key, left-d)
		}
	}
}

// slack is what a test itself takes of the life of a key, at most.
const slack = 500 * time.Millisecond
