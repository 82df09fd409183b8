package chaos

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/internal/testenv"
)

// leaders collects the evidence for I19: an epoch of a sale is loaded by one leader, once. A connection with MONITOR to each
// Redis records every command that loads or opens an item, and a trigger in Postgres every change of an epoch. Commands are
// missed while such a connection is cut, so leaders may miss a breach, but never reports a false one. Safe for concurrent use.
type leaders struct {
	password string // of Redis; "" for none

	mu    sync.Mutex
	items map[itemEpoch]*loading // guarded by mu
}

// itemEpoch is an item in one epoch.
type itemEpoch struct {
	item  string
	epoch int64
}

// loading is the changes of an item's hash in one epoch.
type loading struct {
	tokens []string // one per leader that began to load it
	opened int
}

// raise is a change of a sale's epoch in Postgres.
type raise struct {
	From, To int64
	Token    string // of the leader, "" if the schema has none
}

// monitored is a command as MONITOR shows it.
type monitored struct {
	source string // "lua" for a script's command, otherwise the client's address
	args   []string
}

// parseMonitored reads a line of MONITOR, such as
//
//	1339518083.107412 [0 127.0.0.1:60866] "hset" "key" "a\"b\x00"
func parseMonitored(line string) (m monitored, ok bool) {
	_, rest, ok := strings.Cut(line, " [")
	if !ok {
		return monitored{}, false
	}
	where, rest, ok := strings.Cut(rest, `] "`)
	if !ok {
		return monitored{}, false
	}
	if _, m.source, ok = strings.Cut(where, " "); !ok {
		return monitored{}, false
	}
	for {
		arg, after, ok := unquoted(rest)
		if !ok {
			return monitored{}, false
		}
		m.args = append(m.args, arg)
		if after == "" {
			return m, true
		}
		if rest, ok = strings.CutPrefix(after, ` "`); !ok {
			return monitored{}, false
		}
	}
}

// unquoted reads a string after its opening quote, up to its closing one.
func unquoted(text string) (s, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), text[i+1:], true
		case c != '\\':
			b.WriteByte(c)
		case i+1 == len(text):
			return "", "", false
		default:
			i++
			if at := strings.IndexByte(`ntrab"\`, text[i]); at >= 0 {
				b.WriteByte("\n\t\r\a\b\"\\"[at])
				continue
			}
			if text[i] != 'x' || i+2 >= len(text) {
				return "", "", false
			}
			code, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
			if err != nil {
				return "", "", false
			}
			b.WriteByte(byte(code))
			i += 2
		}
	}
	return "", "", false
}

var hashOfItem = regexp.MustCompile(`^` + space + `:\{` + sale + `:([^{}:]+)\}:(\d+):item$`)

// note records a command if it loads or opens an item.
func (l *leaders) note(m monitored) {
	if len(m.args) < 3 {
		return
	}
	key := hashOfItem.FindStringSubmatch(m.args[1])
	if key == nil {
		return
	}
	epoch, err := strconv.ParseInt(key[2], 10, 64)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := itemEpoch{key[1], epoch}
	of := l.items[at]
	if of == nil {
		of = &loading{}
	}
	switch fields := m.args[2:]; strings.ToLower(m.args[0]) {
	case "hset":
		values := make(map[string]string)
		for i := 1; i < len(fields); i += 2 {
			values[fields[i-1]] = fields[i]
		}
		token, closed := values["recovering"]
		if _, defines := values["server"]; !closed || !defines {
			return // sealing sets only recovering, and a script that opens a new item does not set it
		}
		of.tokens = append(of.tokens, token)
	case "hdel":
		if !slices.Contains(fields, "recovering") {
			return
		}
		of.opened++
	default:
		return
	}
	if l.items == nil {
		l.items = make(map[itemEpoch]*loading)
	}
	l.items[at] = of
}

// watch records the commands of a Redis until ctx ends. Commands that a replica gets from its master are ignored.
func (l *leaders) watch(ctx context.Context, addr string, masters []string) {
	for ctx.Err() == nil {
		l.monitor(ctx, addr, masters)
		periodic.Pause(ctx, 2*time.Millisecond) // the server is down, or the connection was cut
	}
}

func (l *leaders) monitor(ctx context.Context, addr string, masters []string) {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	begin := "MONITOR\r\n"
	if l.password != "" {
		begin = "AUTH " + l.password + "\r\n" + begin
	}
	if _, err := conn.Write([]byte(begin)); err != nil {
		return
	}
	for lines := bufio.NewReader(conn); ; {
		line, err := lines.ReadString('\n')
		if err != nil || strings.HasPrefix(line, "-") { // the server is loading its file
			return
		}
		if !strings.Contains(line, `"recovering"`) {
			continue
		}
		if m, ok := parseMonitored(strings.TrimRight(line, "\r\n")); ok && !slices.Contains(masters, m.source) {
			l.note(m)
		}
	}
}

// findings returns the breaches of I19. loads and raised are the numbers of loads and raises examined.
func (l *leaders) findings(raises []raise) (all []breaches, loads, raised int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	led, loaded, opened := breaches{Invariant: "I19", Title: "an epoch with more than one leader"},
		breaches{Invariant: "I19", Title: "an item loaded twice in an epoch"},
		breaches{Invariant: "I19", Title: "an item opened twice in an epoch"}
	tokens := make(map[int64]map[string]bool)
	add := func(epoch int64, token string) {
		if tokens[epoch] == nil {
			tokens[epoch] = make(map[string]bool)
		}
		if token != "" && token != "1" { // these belong to no leader
			tokens[epoch][token] = true
		}
	}
	seen := make(map[int64]bool)
	for _, r := range raises {
		if r.To != r.From {
			raised++
			if seen[r.To] || r.To < r.From {
				led.wrong("epoch %d was raised to %d, which the sale had already had", r.From, r.To)
			}
			seen[r.From], seen[r.To] = true, true
		}
		add(r.To, r.Token)
	}
	for at, of := range l.items {
		loads += len(of.tokens)
		if len(of.tokens) > 1 {
			loaded.wrong("item %s in epoch %d, %d times, by %v", at.item, at.epoch, len(of.tokens), of.tokens)
		}
		if of.opened > 1 {
			opened.wrong("item %s in epoch %d, %d times", at.item, at.epoch, of.opened)
		}
		for _, token := range of.tokens {
			add(at.epoch, token)
		}
	}
	for epoch, of := range tokens {
		if len(of) > 1 {
			led.wrong("epoch %d: %v", epoch, slices.Sorted(maps.Keys(of)))
		}
	}
	return []breaches{led, loaded, opened}, loads, raised
}

// epochLog makes Postgres record every change of a sale's epoch and leader.
const epochLog = `
CREATE SCHEMA chaos;
CREATE TABLE chaos.raises (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, sale text NOT NULL, was bigint NOT NULL, epoch bigint NOT NULL, token text);
CREATE FUNCTION chaos.note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO chaos.raises (sale, was, epoch, token) VALUES (NEW.sale, OLD.epoch, NEW.epoch, to_jsonb(NEW)->>'epoch_token');
	RETURN NULL;
END $$;
CREATE TRIGGER chaos_raises AFTER UPDATE ON sales FOR EACH ROW
WHEN (OLD.epoch <> NEW.epoch OR to_jsonb(OLD)->>'epoch_token' IS DISTINCT FROM to_jsonb(NEW)->>'epoch_token')
EXECUTE FUNCTION chaos.note()`

// raises reads the records of epochLog.
func (c *cluster) raises(ctx context.Context) ([]raise, error) {
	rows, err := c.pool.Query(ctx, `SELECT was, epoch, coalesce(token, '') FROM chaos.raises WHERE sale = $1 ORDER BY seq`, sale)
	if err != nil {
		return nil, fmt.Errorf("raises: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[raise])
}

// watchLeaders collects evidence until the test ends.
func (c *cluster) watchLeaders() {
	_, err := c.pool.Exec(c.ctx, epochLog)
	c.must(err)
	var servers []string
	switch {
	case c.hosts != nil:
		servers, c.leaders.password = c.hosts.redisAddrs(), c.hosts.password
	case c.sentinel != nil:
		servers = c.sentinel.Servers()
	default:
		servers = []string{c.redis.Addr()}
	}
	ctx, stop := context.WithCancel(c.ctx)
	var watches sync.WaitGroup
	for _, addr := range servers {
		watches.Go(func() { c.leaders.watch(ctx, addr, servers) })
	}
	c.t.Cleanup(func() { stop(); watches.Wait() })
}

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
