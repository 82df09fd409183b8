// Package scripttest tests that a script that fails changes nothing.
package scripttest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
)

// A Case is a call that runs one script.
type Case struct {
	Name    string
	Prepare func(ctx context.Context, rdb *redis.Client) error // writes the keys that the call finds; nil: none
	Call    func(ctx context.Context, rdb *redis.Client) error // returns an error if the script did not do its work
	Heals   bool                                               // the call works whatever a single key holds
}

// Run makes each call of each case with one fault at a time, on a Redis of its own: a command that the user may not run, no channels,
// no memory; a key that is lost, of another type, or holds something else. A call that fails must leave all keys as they were.
func Run(t *testing.T, cases ...Case) {
	t.Helper()
	opts, err := redis.ParseURL(testenv.StartRedis(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	opts.MaxRetries, opts.ReadTimeout = -1, 10*time.Second
	admin := redis.NewClient(opts)
	t.Cleanup(func() { _ = admin.Close() })
	limited := *opts
	limited.Username, limited.Password = userName, userName
	user := redis.NewClient(&limited)
	t.Cleanup(func() { _ = user.Close() })
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			f := &faults{T: t, Case: c, admin: admin, user: user}
			f.run()
		})
	}
}

const userName = "limited"

type faults struct {
	*testing.T
	Case
	admin, user *redis.Client
	start       keys // what each call finds
}

// keys are the dump of each key and when it expires in ms, 0 for never.
type keys map[string]value

type value struct {
	dump    string
	expires int64
}

func (f *faults) run() {
	f.must("FLUSHALL")
	if f.Prepare != nil {
		if err := f.Prepare(f.Context(), f.admin); err != nil {
			f.Fatal(err)
		}
	}
	f.start = f.snapshot()
	f.must("CONFIG", "RESETSTAT")
	if err := f.Call(f.Context(), f.admin); err != nil {
		f.Fatalf("without a fault: %v", err)
	}
	info := f.must("INFO", "commandstats").(string)
	end := f.snapshot()

	f.refuse(info)
	_ = f.fault("without memory", f.admin, func() { f.must("CONFIG", "SET", "maxmemory", 1) })
	f.must("CONFIG", "SET", "maxmemory", 0)

	all := maps.Clone(end) // with keys that only a call makes
	maps.Copy(all, f.start)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		f.damage(key, all)
	}
}

// refuse calls with a user that may not run one of the commands that the call ran.
func (f *faults) refuse(commandStats string) {
	version := f.must("INFO", "server").(string)
	if strings.Contains(version, "redis_version:6.") {
		return // it does not check permissions before a script begins
	}
	refused := 0
	for line := range strings.Lines(commandStats) {
		command, _, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		if !ok || strings.Contains(command, "|") { // a handshake, or INFO's heading
			continue
		}
		if f.fault("without the command "+command, f.user, func() { f.allow("+@all", "-"+command) }) != nil {
			refused++
		}
	}
	if refused == 0 {
		f.Error("the call works without each of its commands")
	}
	_ = f.fault("without channels", f.user, func() { f.allow("+@all", "resetchannels") })
}

func (f *faults) allow(rules ...any) {
	f.must(append([]any{"ACL", "SETUSER", userName, "reset", "on", ">" + userName, "~*", "&*"}, rules...)...)
}

// damage calls with a key in other states. The key has its value in all when it exists.
func (f *faults) damage(key string, all keys) {
	f.restore(all)
	kind := f.must("TYPE", key).(string)
	text := ""
	if kind == "string" {
		text = f.must("GET", key).(string)
	}
	heals := func(what string, with func()) {
		if err := f.fault(key+" "+what, f.admin, with); err != nil && f.Heals {
			f.Errorf("%s %s: %v", key, what, err)
		}
	}
	// first runs commands on the key as it is in all.
	first := func(commands ...[]any) func() {
		return func() {
			f.must("DEL", key)
			f.must("RESTORE", key, all[key].expires, all[key].dump, "ABSTTL")
			for _, command := range commands {
				f.must(command...)
			}
		}
	}
	heals("is lost", func() { f.must("DEL", key) })
	if kind == "string" {
		heals("is a list", first([]any{"DEL", key}, []any{"RPUSH", key, "x"}))
		for what, value := range map[string]string{
			"is empty": "", "is short": "x", "is cut": text[:len(text)-1], "is long": text + "x", "is letters": strings.Repeat("x", len(text)),
		} {
			heals(what, first([]any{"SET", key, value}))
		}
		return
	}
	var elements []any // fields of a hash, members of a sorted set
	switch kind {
	case "hash":
		elements = f.must("HKEYS", key).([]any)
	case "zset":
		elements = f.must("ZRANGE", key, 0, -1).([]any)
	}
	heals("is a string", first([]any{"SET", key, "x"}))
	switch kind {
	case "hash":
		for _, field := range elements {
			heals(fmt.Sprintf("has x in %q", field), first([]any{"HSET", key, field, "x"}))
			heals(fmt.Sprintf("has no %q", field), first([]any{"HDEL", key, field}))
		}
	case "zset":
		heals("has x first", first([]any{"ZADD", key, "-inf", "x"}))
		for _, member := range elements {
			heals(fmt.Sprintf("has no %q", member), first([]any{"ZREM", key, member}))
		}
	case "set":
		heals("has x", first([]any{"SADD", key, "x"}))
	case "list":
		heals("has x first", first([]any{"LPUSH", key, "x"}))
		heals("has x last", first([]any{"RPUSH", key, "x"}))
	}
}

// fault calls after something was done to the keys of the start, and returns the call's error.
func (f *faults) fault(what string, rdb *redis.Client, do func()) error {
	f.restore(f.start)
	do()
	before := f.snapshot()
	err := f.Call(f.Context(), rdb)
	f.must("CONFIG", "SET", "maxmemory", 0)
	after := f.snapshot()
	if err == nil || maps.Equal(before, after) {
		return err
	}
	changed := map[string]bool{}
	for _, all := range []keys{before, after} {
		for key := range all {
			if before[key] != after[key] {
				changed[key] = true
			}
		}
	}
	f.Errorf("%s: the call failed (%v) and changed %v", what, err, slices.Sorted(maps.Keys(changed)))
	return err
}

func (f *faults) snapshot() keys {
	f.Helper()
	found := keys{}
	for _, key := range f.must("KEYS", "*").([]any) {
		key := key.(string)
		expires := max(0, f.must("PEXPIRETIME", key).(int64))
		found[key] = value{f.must("DUMP", key).(string), expires}
	}
	return found
}

func (f *faults) restore(to keys) {
	f.Helper()
	f.must("FLUSHALL")
	for key, value := range to {
		f.must("RESTORE", key, value.expires, value.dump, "ABSTTL")
	}
}

// must runs a command of the administrator.
func (f *faults) must(command ...any) any {
	f.Helper()
	reply, err := f.admin.Do(f.Context(), command...).Result()
	if err != nil {
		f.Fatalf("%v: %v", command[:min(2, len(command))], err)
	}
	return reply
}
