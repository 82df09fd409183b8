package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/internal/testenv"
)

func TestParseMonitored(t *testing.T) {
	for _, c := range []struct {
		line   string
		source string
		args   []string
	}{
		{`+1339518083.107412 [0 127.0.0.1:60866] "keys" "*"`, "127.0.0.1:60866", []string{"keys", "*"}},
		{`+1339518083.107412 [0 lua] "HSET" "a" "" "b c"`, "lua", []string{"HSET", "a", "", "b c"}},
		{`+1.2 [15 [::1]:6] "get" "x"`, "[::1]:6", []string{"get", "x"}},
		{`+1.2 [0 unix:/tmp/redis.sock] "get" "] \"x"`, "unix:/tmp/redis.sock", []string{"get", `] "x`}},
		{`+1.2 [0 lua] "\"" "\\" "\n\r\t\a\b" "\x00\xfF" "\\x41"`, "lua", []string{`"`, `\`, "\n\r\t\a\b", "\x00\xff", `\x41`}},
	} {
		m, ok := parseMonitored(c.line)
		if !ok || m.source != c.source || !slices.Equal(m.args, c.args) {
			t.Errorf("%s: %q, %v", c.line, m, ok)
		}
	}
	for _, line := range []string{
		"", "+OK", "-ERR no", `1.2 [0 lua]`, `1.2 [0 lua] `, `1.2 [lua] "get"`, `1.2 [0 lua] "get`, `1.2 [0 lua] "get" `, `1.2 [0 lua] "get" x`,
		`1.2 [0 lua] "get""x"`, `1.2 [0 lua] "\`, `1.2 [0 lua] "\x"`, `1.2 [0 lua] "\x0"`, `1.2 [0 lua] "\xgg"`, `1.2 [0 lua] "\q"`,
	} {
		if m, ok := parseMonitored(line); ok {
			t.Errorf("%q is read as %q", line, m)
		}
	}
}

// FuzzParseMonitored: every line is parsed or refused, and a parsed one gives the same result after formatting.
func FuzzParseMonitored(f *testing.F) {
	f.Add(`+1339518083.107412 [0 127.0.0.1:60866] "hset" "key" "a\"b\x00"`)
	f.Add(`+1.2 [0 lua] "" "\\"`)
	f.Fuzz(func(t *testing.T, line string) {
		m, ok := parseMonitored(line)
		if !ok {
			return
		}
		var b strings.Builder
		fmt.Fprintf(&b, "1.2 [0 %s]", m.source)
		for _, arg := range m.args {
			b.WriteString(` "`)
			for i := range len(arg) {
				fmt.Fprintf(&b, `\x%02x`, arg[i])
			}
			b.WriteByte('"')
		}
		if again, ok := parseMonitored(b.String()); !ok || again.source != m.source || !slices.Equal(again.args, m.args) {
			t.Errorf("%q and %q", m, again)
		}
	})
}

// TestLeadersAreSeen: the output of a real server for a script, for a transaction, and for commands that neither load nor open;
// also after the server was down.
func TestLeadersAreSeen(t *testing.T) {
	server := testenv.StartRedis(t)
	var l leaders
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.watch(ctx, server.Addr(), nil) }()
	t.Cleanup(func() { stop(); <-done })
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	watched := func() {
		eventually(t, "the server is watched", func() bool {
			clients, err := rdb.ClientList(t.Context()).Result()
			must(t, err)
			return strings.Contains(clients, "cmd=monitor")
		})
	}
	script := redis.NewScript(`
		redis.call('HSET', KEYS[1], 'recovering', ARGV[1], 'next', 0, 'server', 'r"')
		redis.call('HSET', KEYS[1], 'recovering', ARGV[1])
		redis.call('HSET', KEYS[1], 'server', 'another')
		return redis.call('HDEL', KEYS[1], 'next', 'recovering')`)
	watched()
	must(t, script.Run(t.Context(), rdb, []string{itemKey(item, 2, "item")}, "z").Err())
	eventually(t, "the script is seen", func() bool { return l.opened(item, 2) == 1 })
	server.Restart()
	watched()
	_, err := rdb.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.HSet(t.Context(), itemKey("other", 2, "item"), "server", "r", "recovering", 1)
		p.HSet(t.Context(), itemKey("other", 2, "pending"), "server", "r", "recovering", 1)
		p.HDel(t.Context(), itemKey("other", 2, "item"), "server")
		p.HDel(t.Context(), itemKey("last", 2, "item"), "recovering")
		return nil
	})
	must(t, err)
	eventually(t, "the transaction is seen", func() bool { return l.opened("last", 2) == 1 })
	l.mu.Lock()
	defer l.mu.Unlock()
	for at, want := range map[itemEpoch]loading{
		{item, 2}:    {tokens: []string{"z"}, opened: 1},
		{"other", 2}: {tokens: []string{"1"}},
		{"last", 2}:  {opened: 1},
	} {
		if got := l.items[at]; got == nil || !slices.Equal(got.tokens, want.tokens) || got.opened != want.opened {
			t.Errorf("%v: %+v, want %+v", at, got, want)
		}
	}
	if len(l.items) != 3 {
		t.Errorf("%d items", len(l.items))
	}
}

// opened returns how often an item was opened in an epoch.
func (l *leaders) opened(name string, epoch int64) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of := l.items[itemEpoch{name, epoch}]; of != nil {
		return of.opened
	}
	return 0
}

func TestLeadersAreJudged(t *testing.T) {
	set := func(name, token string, epoch int64) monitored {
		return monitored{"lua", []string{"HSET", itemKey(name, epoch, "item"), "server", "r", "recovering", token}}
	}
	open := func(name string, epoch int64) monitored {
		return monitored{"lua", []string{"HDEL", itemKey(name, epoch, "item"), "recovering"}}
	}
	for _, c := range []struct {
		name   string
		seen   []monitored
		raises []raise
		want   string
	}{
		{name: "nothing happened"},
		{
			name: "one leader after the other", raises: []raise{{1, 2, "a"}, {2, 3, "b"}, {3, 5, "c"}},
			seen: []monitored{set("x", "a", 2), set("y", "a", 2), set("x", "b", 3), set("y", "b", 3), open("x", 3), open("y", 3), set("x", "c", 5)},
		},
		{name: "an introduced item", seen: []monitored{set("x", "1", 2), open("x", 2), set("y", "1", 2), open("y", 2)}, raises: []raise{{1, 2, ""}}},
		{name: "two leaders of an item", seen: []monitored{set("x", "a", 2), set("x", "b", 2)}, want: "leader, loaded"},
		{name: "one leader, twice", seen: []monitored{set("x", "1", 2), set("x", "1", 2)}, want: "loaded"},
		{name: "two leaders of two items", seen: []monitored{set("x", "a", 2), set("y", "b", 2)}, want: "leader"},
		{name: "another one than who raised it", raises: []raise{{1, 2, "a"}}, seen: []monitored{set("x", "b", 2)}, want: "leader"},
		{name: "opened twice", seen: []monitored{set("x", "a", 2), open("x", 2), open("x", 2)}, want: "opened"},
		{name: "raised twice", raises: []raise{{1, 2, "a"}, {1, 2, "a"}}, want: "leader"},
		{name: "raised to where it began", raises: []raise{{1, 2, "a"}, {2, 1, "a"}}, want: "leader"},
		{name: "another leader without a raise", raises: []raise{{1, 2, "a"}, {2, 2, "b"}}, want: "leader"},
	} {
		var l leaders
		for _, m := range c.seen {
			l.note(m)
		}
		found, loads, raised := l.findings(c.raises)
		var broken []string
		for i, b := range found {
			if b.Count > 0 {
				broken = append(broken, []string{"leader", "loaded", "opened"}[i])
			}
		}
		if got := strings.Join(broken, ", "); got != c.want {
			t.Errorf("%s: %q of %d loads and %d raises, want %q: %+v", c.name, got, loads, raised, c.want, found)
		}
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("it did not come to be: %s", what)
		}
		periodic.Pause(t.Context(), 5*time.Millisecond)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
