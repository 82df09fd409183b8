package redisscript

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// TestGuard: a script begins only if the user may run all its commands with all its keys.
func TestGuard(t *testing.T) {
	opts, err := redis.ParseURL(testenv.StartRedis(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	admin := redis.NewClient(opts)
	defer admin.Close()
	as := *opts
	as.Username, as.Password = "shop", "secret"
	user := redis.NewClient(&as)
	defer user.Close()
	for name, source := range map[string]string{
		"calls":   `redis.call('HSET', KEYS[1], 'f', 1) redis.call("ZADD", KEYS[2], 1, 'm') return { redis.call('GET', KEYS[3]) }`,
		"aliases": `local call = redis.call call('HSET', KEYS[1], 'f', 1) return { call('ZADD', KEYS[2], 1, 'm'), call('GET', KEYS[3]) }`,
		"tables": `for _, c in ipairs({ {'HSET', KEYS[1], 'f', 1}, {'ZADD', KEYS[2], 1, 'm'} }) do redis.call(unpack(c)) end
			return { redis.call('GET', KEYS[3]) }`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, rules := range []string{"", "~* -zadd", "~* -get", "~a ~c", "~a ~c %R~b", "~* -zadd (+zadd ~other)"} {
				acl := []any{"ACL", "SETUSER", "shop", "reset", "on", ">secret", "+@all"}
				for rule := range strings.FieldsSeq(rules) {
					acl = append(acl, rule)
				}
				if err := admin.Do(t.Context(), acl...).Err(); err != nil {
					t.Fatal(err)
				}
				keys := []string{"a", "b", "c"}
				once := New("test", source, "GET").Run(t.Context(), user, keys).Err()
				repeated := Repeatable("test", source, "GET").Run(t.Context(), user, keys).Err()
				for _, err := range []error{once, repeated} {
					if !redis.HasErrorPrefix(err, "NOPERM") {
						t.Errorf("%q: %v", rules, err)
					}
				}
				for _, command := range []string{"zadd", "get"} {
					if strings.HasSuffix(rules, "-"+command) && !strings.Contains(strings.ToLower(once.Error()), "'"+command+"'") {
						t.Errorf("%q: %v does not name the command", rules, once)
					}
				}
				if n := admin.DBSize(t.Context()).Val(); n != 0 {
					t.Errorf("%q: %d keys were written", rules, n)
				}
			}
		})
	}
}

// TestGuardKeepsLineNumbers: an error names the line of the source, after that of the name.
func TestGuardKeepsLineNumbers(t *testing.T) {
	opts, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	err = New("test", "-- a comment\nlocal t = redis.call('EXISTS', KEYS[1]) == 2 and redis.call('DEL', KEYS[1])\nreturn t.x").Run(t.Context(), rdb, []string{"guard:lines"}).Err()
	if err == nil || !strings.Contains(err.Error(), "user_script:4") {
		t.Errorf("%v", err)
	}
}

// TestWrites: the guard has all commands that a server's own list says write.
func TestWrites(t *testing.T) {
	opts, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	commands, err := rdb.Command(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	for name, command := range commands {
		word := strings.ToUpper(name)
		can := !strings.ContainsAny(word, "|. -") && !slices.Contains(command.Flags, "noscript") && !slices.Contains(command.Flags, "admin")
		if can && slices.Contains(command.Flags, "write") && !slices.Contains(writes, word) {
			t.Errorf("%s is missing", word)
		}
	}
}

// BenchmarkGuard measures what the guard of a script with seven commands costs Redis, in µs of its time.
func BenchmarkGuard(b *testing.B) {
	opts, err := redis.ParseURL(testenv.StartRedis(b).URL())
	if err != nil {
		b.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	const source = `if ARGV[1] == '1' then for _, c in ipairs({ 'HSET', 'SADD', 'ZADD', 'RPUSH', 'PEXPIREAT', 'HDEL', 'SREM' }) do redis.call(c) end end return {}`
	for name, script := range map[string]*Script{"with": Repeatable("test", source), "without": {source: source, hash: redis.NewScript(source).Hash()}} {
		b.Run(name, func(b *testing.B) {
			if err := rdb.ConfigResetStat(b.Context()).Err(); err != nil {
				b.Fatal(err)
			}
			for range b.N {
				if err := script.Run(b.Context(), rdb, nil, 0).Err(); err != nil {
					b.Fatal(err)
				}
			}
			stats, err := rdb.Info(b.Context(), "commandstats").Result()
			if err != nil {
				b.Fatal(err)
			}
			_, evalsha, _ := strings.Cut(stats, "cmdstat_evalsha:")
			_, each, _ := strings.Cut(evalsha, "usec_per_call=")
			each, _, _ = strings.Cut(each, ",")
			b.Logf("%s µs a script", each)
		})
	}
}
