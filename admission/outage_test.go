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
	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/redisclient"
)

// silentUntil accepts connections and never answers, until it is told to close all of them for good.
func silentUntil(t *testing.T) (url string, hangUp func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	hangUp = func() { l.Close(); cancel() }
	t.Cleanup(func() { hangUp(); wg.Wait() })
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				defer context.AfterFunc(ctx, func() { conn.Close() })()
				_, _ = io.Copy(io.Discard, conn)
			})
		}
	})
	return "redis://" + l.Addr().String(), hangUp
}

// refusing is an address without a listener.
func refusing(t *testing.T) (url string, hangUp func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "redis://" + l.Addr().String(), func() {}
}

func TestALostRedisIsAnsweredWithinTheDeadline(t *testing.T) {
	const (
		timeout = 80 * ms
		slack   = 400 * ms // for a busy machine
		clients = time.Second
	)
	for _, kind := range []struct {
		name string
		url  func(*testing.T) (string, func())
	}{{"silent", silentUntil}, {"refusing", refusing}} {
		for _, over := range clientKinds {
			t.Run(kind.name+" "+over.name, func(t *testing.T) {
				url, hangUp := kind.url(t)
				defer hangUp() // or else a pipeline sends what it holds before it closes, and waits a second for each batch
				opts, err := redisclient.ParseURL(url)
				if err != nil {
					t.Fatal(err)
				}
				// The client's own time-outs come later: it is the gate that keeps the deadline.
				opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout, opts.PoolTimeout = clients, clients, clients, clients
				client := over.open(t, opts)
				rules := parse(t, `
- {name: open, subject: user, limit: 5, window: 1m}
- {name: closed, subject: device, limit: 5, window: 1m, on_store_error: closed}
`)
				g, err := admission.NewWithStore(redisstore.New(client), rules, admission.Options{Secret: secret, Timeout: timeout})
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
	opts, err := redisclient.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewUniversalClient(opts)
	t.Cleanup(func() { rdb.Close() })
	g, err := admission.NewWithStore(redisstore.New(rdb), parse(t, "- {name: r, subject: user, limit: 5, window: 10m}"),
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
	for _, c := range clientKinds {
		t.Run(c.name, func(t *testing.T) {
			proxy, scripts := deaf(t, addr)
			opts, err := redisclient.ParseURL("redis://" + proxy)
			if err != nil {
				t.Fatal(err)
			}
			client := c.open(t, opts)
			ns, req := namespace(), admission.Request{User: "ann"}
			warm := gate(t, redisstore.New(dial(t, url)), ns, rules)
			charge(t, warm, req) // loads the script
			cut, charges := gate(t, redisstore.New(client), ns, rules), 0
			for scripts.Load() == 0 { // a busy machine may have no connection in time, and send nothing
				charges++
				if d, err := cut.Charge(t.Context(), req); err != nil || !d.Degraded {
					t.Fatalf("without an answer: %+v, %v", d, err)
				}
			}
			d, counted := check(t, warm, req), int(scripts.Load())
			if counted > charges || d.Remaining < 4-charges || d.Remaining > 3 {
				t.Errorf("%d scripts and %d units left after %d charges, want a script each, and 4 units before them", counted, d.Remaining, charges)
			}
		})
	}
}

// clientKinds are the clients over which a store works in different ways.
var clientKinds = []struct {
	name string
	open func(t *testing.T, opts *redis.UniversalOptions) redisscript.Client
}{
	{"plain", func(t *testing.T, opts *redis.UniversalOptions) redisscript.Client {
		rdb := redis.NewUniversalClient(opts)
		t.Cleanup(func() { rdb.Close() })
		return rdb
	}},
	{"cluster", func(t *testing.T, opts *redis.UniversalOptions) redisscript.Client { return oneNodeCluster(t, opts) }},
	{"cluster auto-pipelined", func(t *testing.T, opts *redis.UniversalOptions) redisscript.Client {
		return pipelined(t, oneNodeCluster(t, opts))
	}},
}

// oneNodeCluster is a cluster client that only has the given node.
func oneNodeCluster(t *testing.T, opts *redis.UniversalOptions) redis.UniversalClient {
	cluster := opts.Cluster()
	cluster.ClusterSlots = func(context.Context) ([]redis.ClusterSlot, error) {
		return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: opts.Addrs[0]}}}}, nil
	}
	rdb := redis.NewClusterClient(cluster)
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// deaf passes everything on to the Redis at addr, and hangs up instead of passing back the answer to a script.
func deaf(t *testing.T, addr string) (string, *atomic.Int64) {
	t.Helper()
	var scripts atomic.Int64
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
			wg.Go(func() { relay(conn, addr, &scripts) })
		}
	})
	return l.Addr().String(), &scripts
}

func relay(conn net.Conn, addr string, scripts *atomic.Int64) {
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
				if err == nil {
					scripts.Add(1)
				}
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
