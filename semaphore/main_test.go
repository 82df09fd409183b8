package semaphore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/semaphore"
)

func TestMain(m *testing.M) {
	beChild()
	testenv.AtOnce(8)
	os.Exit(testenv.Main(m))
}

// patience is how long a test waits for what must come: so long that only what never comes takes it.
const patience = 2 * time.Minute

// A client is what both kinds of go-redis clients can do.
type client interface {
	redis.UniversalClient
	semaphore.Client
}

// dial returns a client of a redis:// URL, or of a cluster's addresses with commas between.
func dial(addr string) client {
	if !strings.HasPrefix(addr, "redis://") {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: strings.Split(addr, ","), ContextTimeoutEnabled: true})
	}
	opts, err := redis.ParseURL(addr)
	if err != nil {
		panic(err)
	}
	opts.ContextTimeoutEnabled = true
	return redis.NewClient(opts)
}

// A house is an installation on one Redis, with a unique namespace.
type house struct {
	t         testing.TB
	addr      string // see dial
	namespace string
}

func newHouse(t testing.TB, addr string) *house {
	return &house{t, addr, rand.Text()}
}

// eachRedis runs a test on every kind of Redis that there is, on all at once.
func eachRedis(t *testing.T, test func(*testing.T, *house)) {
	for kind, addr := range map[string]func(*testing.T) string{
		"redis":    func(t *testing.T) string { return testenv.Redis(t) },
		"cluster":  func(t *testing.T) string { return strings.Join(testenv.RedisCluster(t), ",") },
		"embedded": func(t *testing.T) string { return "redis://" + miniredis.RunT(t).Addr() + "/0" },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, newHouse(t, addr(t)))
		})
	}
}

// client returns a client that is closed when the test ends.
func (h *house) client() client {
	rdb := dial(h.addr)
	h.t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// set returns a Set with its own connections, like that of another process.
func (h *house) set() *semaphore.Set { return h.setOn(h.client(), semaphore.SetOptions{}) }

func (h *house) setOn(rdb semaphore.Client, opts semaphore.SetOptions) *semaphore.Set {
	h.t.Helper()
	opts.Namespace = h.namespace
	set, err := semaphore.NewSet(rdb, opts)
	if err != nil {
		h.t.Fatal(err)
	}
	running(h.t, set)
	return set
}

// stops are the functions that stop the Sets and semaphores that run.
var stops sync.Map

// running runs a Set or a semaphore of New until stop, or until the test ends.
func running(t testing.TB, s interface{ Run(context.Context) error }) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	stops.Store(s, stop)
	t.Cleanup(func() {
		stop()
		stops.Delete(s)
	})
}

// stop ends the Run of a Set or a semaphore that running has started, and waits for its end.
func stop(s any) {
	f, _ := stops.Load(s)
	f.(func())()
}

// semaphore returns a semaphore of a new Set, without defining it.
func (h *house) semaphore(name string) *semaphore.Semaphore { return of(h.t, h.set(), name) }

// defined is semaphore for one that it defines.
func (h *house) defined(name string, limit int, lease time.Duration) *semaphore.Semaphore {
	h.t.Helper()
	s := h.semaphore(name)
	define(h.t, s, limit, lease)
	return s
}

func define(t testing.TB, s *semaphore.Semaphore, limit int, lease time.Duration) {
	t.Helper()
	answered(t, func(ctx context.Context) error {
		return s.Define(ctx, semaphore.Definition{Limit: limit, Lease: lease})
	})
}

// answered repeats a call that a busy machine did not answer within the package's own timeouts.
func answered(t testing.TB, call func(context.Context) error) {
	t.Helper()
	ctx := soon(t)
	for {
		err := call(ctx)
		switch {
		case err == nil:
			return
		case !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
			t.Fatal(err)
		}
	}
}

func of(t testing.TB, set *semaphore.Set, name string) *semaphore.Semaphore {
	t.Helper()
	s, err := set.Semaphore(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// soon is a context that ends when a test has waited for too long.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func acquire(t testing.TB, s *semaphore.Semaphore, r semaphore.Request) *semaphore.Permit {
	t.Helper()
	p, full, err := s.AcquireWith(soon(t), r)
	if p == nil {
		t.Fatal(full, err)
	}
	return p
}

func release(t testing.TB, permits ...*semaphore.Permit) {
	t.Helper()
	for _, p := range permits {
		if err := p.Release(); err != nil {
			t.Fatal(err)
		}
	}
}

// A caller is a call that waits for a permit.
type caller struct {
	t      testing.TB
	done   chan struct{}
	permit *semaphore.Permit
	full   *semaphore.Refusal
	err    error
}

func call(ctx context.Context, t testing.TB, s *semaphore.Semaphore, r semaphore.Request) *caller {
	c := &caller{t: t, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.permit, c.full, c.err = s.AcquireWith(ctx, r)
	}()
	return c
}

// queue is call, and returns when the caller is in the queue as the n-th.
func queue(t testing.TB, s *semaphore.Semaphore, r semaphore.Request, n int) *caller {
	t.Helper()
	c := call(soon(t), t, s, r)
	await(t, s, func(st semaphore.Status) bool { return st.Waiting == n })
	return c
}

// got returns what the caller got, which it must.
func (c *caller) got() *semaphore.Permit {
	c.t.Helper()
	<-c.done
	if c.permit == nil {
		c.t.Fatal(c.full, c.err)
	}
	return c.permit
}

// refused returns the refusal that the caller got, which it must.
func (c *caller) refused() *semaphore.Refusal {
	c.t.Helper()
	<-c.done
	if c.full == nil {
		c.t.Fatal(c.permit, c.err)
	}
	return c.full
}

// failed returns the error that the caller got, which it must.
func (c *caller) failed() error {
	c.t.Helper()
	<-c.done
	if c.err == nil {
		c.t.Fatal(c.permit, c.full)
	}
	return c.err
}

// waits reports whether the caller has no answer yet.
func (c *caller) waits() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

func status(t testing.TB, s *semaphore.Semaphore) semaphore.Status {
	t.Helper()
	return await(t, s, func(semaphore.Status) bool { return true })
}

// await asks how the semaphore stands until it stands so.
func await(t testing.TB, s *semaphore.Semaphore, so func(semaphore.Status) bool) semaphore.Status {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		var st semaphore.Status
		answered(t, func(ctx context.Context) (err error) {
			st, err = s.Status(ctx)
			return err
		})
		if so(st) {
			return st
		}
		if time.Now().After(end) {
			t.Fatalf("after %v still %+v", patience, st)
		}
	}
}
