package admission_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/testenv"
)

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

// P24: Redis dies, stands still and comes back in the middle of load. Every request is answered within the gate's time-out, and in the end
// counts are what they should be. The longest wait is logged.
func TestRedisDiesUnderLoad(t *testing.T) {
	const (
		callers = 64
		timeout = 150 * ms // the default
		slack   = 500 * ms // for a busy machine
		enough  = 200      // decisions of each caller in each phase
		rule    = "- {name: r, subject: user, limit: 1000000, window: 10m}"
	)
	for _, pipe := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "auto-pipelined"}[pipe], func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t)
			opts, err := admission.RedisOptions(server.URL())
			if err != nil {
				t.Fatal(err)
			}
			rdb := redis.NewUniversalClient(opts)
			t.Cleanup(func() { rdb.Close() })
			var client admission.Client = rdb
			if pipe {
				client = pipelined(t, rdb)
			}
			g := quickGate(t, admission.NewRedisStore(client), rule)
			var longest atomic.Int64
			// load runs all callers, lets during happen in their midst, and returns how many were counted and how many were not.
			load := func(during func()) (counted, degraded int64) {
				var in, out atomic.Int64
				var done atomic.Bool
				midst := make(chan struct{})
				var wg sync.WaitGroup
				for i := range callers {
					wg.Go(func() {
						pace := time.NewTicker(2 * ms) // callers that never pause would measure the scheduler
						defer pace.Stop()
						for n := 0; n < enough || !done.Load(); n++ {
							<-pace.C
							start := time.Now()
							d, err := g.Charge(t.Context(), admission.Request{User: strconv.Itoa(i)})
							took := int64(time.Since(start))
							for was := longest.Load(); took > was && !longest.CompareAndSwap(was, took); was = longest.Load() {
							}
							switch {
							case err != nil || !d.Admitted:
								t.Errorf("%+v, %v", d, err)
							case d.Degraded:
								out.Add(1)
							case in.Add(1) == callers*enough/4:
								close(midst)
							}
						}
					})
				}
				<-midst
				during()
				done.Store(true)
				wg.Wait()
				return in.Load(), out.Load()
			}
			for _, phase := range []struct {
				name   string
				during func()
				after  func()
			}{
				{"well", func() {}, func() {}},
				{"killed", server.Kill, server.Restart},
				{"standing still", server.Stop, server.Continue},
				{"flapping", func() {
					for range 3 {
						server.Stop()
						server.Continue()
						server.Restart()
					}
				}, func() {}},
			} {
				in, out := load(phase.during)
				t.Logf("%s: %d counted, %d admitted uncounted, longest wait so far %v", phase.name, in, out, time.Duration(longest.Load()))
				phase.after()
				for { // until it is in service again
					if d, err := g.Charge(t.Context(), admission.Request{User: "probe"}); err != nil {
						t.Fatal(err)
					} else if !d.Degraded {
						break
					}
				}
			}
			if took := time.Duration(longest.Load()); took > timeout+slack {
				t.Errorf("somebody waited %v", took)
			}
		})
	}
}
