package admission_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/testenv"
)

func TestEveryKeyEnds(t *testing.T) {
	t.Parallel()
	rdb, ns := dial(t, testenv.Redis(t)), namespace()
	g := gate(t, admission.NewRedisStore(rdb), ns, `
- {name: a, subject: user, windows: [{limit: 2, window: 10s}, {limit: 5, window: 1m}]}
- {name: b, subject: [user, device], limit: 100, window: 1h, shadow: true}
`)
	for range 4 { // the third and fourth are denied
		charge(t, g, admission.Request{User: "ann", Device: strings.Repeat("{}\n\x00🎟️", 1000)})
	}
	var keys int
	for scan := rdb.Scan(t.Context(), 0, ns+":*", 1000).Iterator(); scan.Next(t.Context()); keys++ {
		ttl, err := rdb.PTTL(t.Context(), scan.Val()).Result()
		if err != nil || ttl <= 0 || ttl > time.Hour+time.Second {
			t.Errorf("key %q ends after %v, %v", scan.Val(), ttl, err)
		}
		if len(scan.Val()) != len(ns)+len(":w:{}:")+22+8 {
			t.Errorf("key %q is too long", scan.Val())
		}
	}
	if keys != 3 {
		t.Errorf("%d keys, want 3", keys)
	}
}

// A log that nobody empties would grow: what has left the window leaves the list with the next admission.
func TestExpiredUnitsLeaveTheList(t *testing.T) {
	t.Parallel()
	rdb, ns, clk := dial(t, testenv.Redis(t)), namespace(), newClock()
	store := admission.NewRedisStore(rdb)
	store.SetClock(clk.Now)
	g := gate(t, store, ns, "- {name: a, subject: user, limit: 10, window: 10s}")
	for i := range 50 {
		clk.At(time.Duration(i) * 1500 * ms)
		charge(t, g, admission.Request{User: "ann"})
	}
	keys, _, err := rdb.Scan(t.Context(), 0, ns+":*", 100_000).Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %q, %v", keys, err)
	}
	if n := rdb.LLen(t.Context(), keys[0]).Val(); n != 7 {
		t.Errorf("%d units kept, want the 7 of the last 10 s", n)
	}
}

// Times are Redis' own, to the µs; here it runs on the same machine.
func TestRedisKeepsTheTime(t *testing.T) {
	t.Parallel()
	rdb, ns := dial(t, testenv.Redis(t)), namespace()
	g := gate(t, admission.NewRedisStore(rdb), ns, "- {name: a, subject: user, limit: 10, window: 10m}")
	before := time.Now()
	charge(t, g, admission.Request{User: "ann"})
	charge(t, g, admission.Request{User: "ann"})
	after := time.Now()
	keys, _, err := rdb.Scan(t.Context(), 0, ns+":*", 100_000).Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %q, %v", keys, err)
	}
	var units []int64
	if err := rdb.LRange(t.Context(), keys[0], 0, -1).ScanSlice(&units); err != nil || len(units) != 2 {
		t.Fatalf("units %v, %v", units, err)
	}
	if units[0] < before.UnixMicro() || units[1] <= units[0] || units[1] > after.UnixMicro() {
		t.Errorf("units at %v, want two times from %d to %d", units, before.UnixMicro(), after.UnixMicro())
	}
}

func TestForgottenScripts(t *testing.T) {
	t.Parallel()
	rdb := dial(t, testenv.StartRedis(t).URL())
	for name, client := range map[string]admission.Client{"plain": rdb, "auto-pipelined": pipelined(t, rdb)} {
		t.Run(name, func(t *testing.T) {
			g := gate(t, admission.NewRedisStore(client), namespace(), "- {name: r, subject: user, limit: 1000, window: 5m}")
			for round := range 3 {
				if err := rdb.ScriptFlush(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				var wg sync.WaitGroup
				for range 50 {
					wg.Go(func() {
						if d, err := g.Charge(t.Context(), admission.Request{User: "ann"}); err != nil || d.Degraded {
							t.Errorf("Charge = %+v, %v", d, err)
						}
					})
				}
				wg.Wait()
				if d := check(t, g, admission.Request{User: "ann"}); d.Remaining != 1000-50*(round+1) {
					t.Errorf("round %d: %d units left", round, d.Remaining)
				}
			}
		})
	}
}

// silent listens, and never answers who connects.
func silent(t *testing.T) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(io.Discard, conn) // until the client closes
			})
		}
	})
	return "redis://" + l.Addr().String()
}

// refusing is an address where nobody listens.
func refusing(t *testing.T) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "redis://" + l.Addr().String()
}

func TestALostRedisIsAnsweredWithinTheDeadline(t *testing.T) {
	const (
		timeout = 80 * ms
		slack   = 400 * ms // for a busy machine
		clients = time.Second
	)
	for _, kind := range []struct {
		name string
		url  func(*testing.T) string
	}{{"silent", silent}, {"refusing", refusing}} {
		for _, pipe := range []bool{false, true} {
			name := kind.name
			if pipe {
				name += " auto-pipelined"
			}
			t.Run(name, func(t *testing.T) {
				opts, err := admission.RedisOptions(kind.url(t))
				if err != nil {
					t.Fatal(err)
				}
				// The client's own time-outs come later: it is the gate that keeps the deadline.
				opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout, opts.PoolTimeout = clients, clients, clients, clients
				rdb := redis.NewUniversalClient(opts)
				t.Cleanup(func() { rdb.Close() })
				var client admission.Client = rdb
				if pipe {
					client = pipelined(t, rdb)
				}
				rules := parse(t, `
- {name: open, subject: user, limit: 5, window: 1m}
- {name: closed, subject: device, limit: 5, window: 1m, on_store_error: closed}
`)
				g, err := admission.New(admission.NewRedisStore(client), rules, admission.Options{Secret: secret, Timeout: timeout})
				if err != nil {
					t.Fatal(err)
				}
				var wg sync.WaitGroup
				for range 20 { // more than there are connections to hang on
					wg.Go(func() {
						start := time.Now()
						d, err := g.Charge(t.Context(), admission.Request{User: "ann"})
						if err != nil || !d.Admitted || !d.Degraded {
							t.Errorf("open: %+v, %v", d, err)
						}
						if took := time.Since(start); took > timeout+slack {
							t.Errorf("open: took %v", took)
						}
					})
					wg.Go(func() {
						start := time.Now()
						_, err := g.Charge(t.Context(), admission.Request{Device: "phone"})
						if !errors.Is(err, admission.ErrUnavailable) {
							t.Errorf("closed: %v", err)
						}
						if took := time.Since(start); took > timeout+slack {
							t.Errorf("closed: took %v", took)
						}
					})
				}
				wg.Wait()
			})
		}
	}
}

func TestRedisComesBack(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, "--appendfsync", "always") // what it answered, it still knows after a crash
	opts, err := admission.RedisOptions(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewUniversalClient(opts)
	t.Cleanup(func() { rdb.Close() })
	g, err := admission.New(admission.NewRedisStore(rdb), parse(t, "- {name: r, subject: user, limit: 5, window: 10m}"),
		admission.Options{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	req := admission.Request{User: "ann"}
	decided := func() admission.Decision { // waits for Redis
		for {
			d, err := g.Charge(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if !d.Degraded {
				return d
			}
		}
	}
	decided()
	server.Stop()
	if d, err := g.Charge(t.Context(), req); err != nil || !d.Degraded {
		t.Errorf("while Redis stands still: %+v, %v", d, err)
	}
	server.Continue()
	left := decided().Remaining
	server.Kill()
	if d, err := g.Charge(t.Context(), req); err != nil || !d.Degraded {
		t.Errorf("while Redis is gone: %+v, %v", d, err)
	}
	server.Restart()
	if d := decided(); d.Remaining > left {
		t.Errorf("after a restart %d units are left, %d before it", d.Remaining, left)
	}
}

// Redis counts, but the answer is lost. Sending the script again would count the request twice.
func TestNothingIsSentTwice(t *testing.T) {
	t.Parallel()
	url := testenv.Redis(t)
	addr := strings.TrimSuffix(strings.TrimPrefix(url, "redis://"), "/0")
	rules := "- {name: r, subject: user, limit: 5, window: 10m}"
	for _, c := range []struct {
		name string
		dial func(opts *redis.UniversalOptions) redis.UniversalClient
		pipe bool
	}{
		{"plain", redis.NewUniversalClient, false},
		{"auto-pipelined", redis.NewUniversalClient, true},
		{"cluster", oneNodeCluster, false},
		{"cluster auto-pipelined", oneNodeCluster, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			opts, err := admission.RedisOptions("redis://" + deaf(t, addr))
			if err != nil {
				t.Fatal(err)
			}
			rdb := c.dial(opts)
			t.Cleanup(func() { rdb.Close() })
			var client admission.Client = rdb
			if c.pipe {
				client = pipelined(t, rdb)
			}
			ns, req := namespace(), admission.Request{User: "ann"}
			warm := gate(t, admission.NewRedisStore(dial(t, url)), ns, rules)
			charge(t, warm, req) // loads the script
			d, err := gate(t, admission.NewRedisStore(client), ns, rules).Charge(t.Context(), req)
			if err != nil || !d.Degraded {
				t.Fatalf("without an answer: %+v, %v", d, err)
			}
			if d := check(t, warm, req); d.Remaining != 3 {
				t.Errorf("%d units left, want 3: one before, one without an answer", d.Remaining)
			}
		})
	}
}

// oneNodeCluster is a cluster client that knows no node but the given one.
func oneNodeCluster(opts *redis.UniversalOptions) redis.UniversalClient {
	cluster := opts.Cluster()
	cluster.ClusterSlots = func(context.Context) ([]redis.ClusterSlot, error) {
		return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: opts.Addrs[0]}}}}, nil
	}
	return redis.NewClusterClient(cluster)
}

// deaf passes everything on to the Redis at addr, and hangs up instead of passing back the answer to a script.
func deaf(t *testing.T, addr string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { relay(conn, addr) })
		}
	})
	return l.Addr().String()
}

func relay(conn net.Conn, addr string) {
	defer conn.Close()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer server.Close()
	var asked atomic.Bool
	go func() {
		defer conn.Close() // ends the loop below
		answer := make([]byte, 64<<10)
		for {
			n, err := server.Read(answer)
			if err != nil || asked.Load() {
				return
			}
			_, _ = conn.Write(answer[:n])
		}
	}()
	request := make([]byte, 64<<10)
	for {
		n, err := conn.Read(request)
		if err != nil {
			return
		}
		if bytes.Contains(request[:n], []byte("evalsha")) {
			asked.Store(true)
		}
		_, _ = server.Write(request[:n])
	}
}

func TestRedisOptions(t *testing.T) {
	for _, c := range []struct {
		url   string
		addrs string
		tls   bool
		err   bool
	}{
		{"redis://localhost", "localhost:6379", false, false},
		{"redis://user:word@db:7000/3", "db:7000", false, false},
		{"rediss://db:7000", "db:7000", true, false},
		{"redis://a:1,b:2,c:3", "a:1 b:2 c:3", false, false},
		{"rediss://a:1,rediss://b:2", "a:1 b:2", true, false},
		{"redis://a:1/2,b:2", "", false, true},
		{"redis://a:1,,b:2", "", false, true},
		{"http://a", "", false, true},
		{"", "", false, true},
	} {
		opts, err := admission.RedisOptions(c.url)
		if (err != nil) != c.err {
			t.Errorf("%q: %v", c.url, err)
		}
		if err != nil {
			continue
		}
		if got := strings.Join(opts.Addrs, " "); got != c.addrs || (opts.TLSConfig != nil) != c.tls {
			t.Errorf("%q: addresses %s, TLS %v", c.url, got, opts.TLSConfig != nil)
		}
		if opts.MaxRetries != -1 || opts.DialerRetries != 1 || !opts.ContextTimeoutEnabled || opts.ReadTimeout > 100*ms {
			t.Errorf("%q: not the settings of a decision: %+v", c.url, opts)
		}
	}
}
