package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
)

func TestMain(m *testing.M) {
	testenv.AtOnce(8)
	os.Exit(testenv.Main(m))
}

var silent = slog.New(slog.DiscardHandler)

// diary records events in their order, and is a fake service.
type diary struct {
	mu    sync.Mutex
	notes []string
	hang  chan struct{} // what Drain waits for
	woken chan struct{} // closed by Stop, unless nil
	loads chan struct{} // what WaitLoaded waits for; nil: nothing
}

func (d *diary) note(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notes = append(d.notes, what)
}

func (d *diary) part(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		<-ctx.Done()
		d.note(name + " ended")
		return ctx.Err()
	}
}

func (d *diary) Run(ctx context.Context) error { return d.part("service")(ctx) }

func (d *diary) WaitLoaded(ctx context.Context) error {
	if d.loads == nil {
		return nil
	}
	select {
	case <-d.loads:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *diary) WakeWaiters() {
	d.note("waiters woken")
	if d.woken != nil {
		close(d.woken)
	}
}

func (d *diary) Drain(ctx context.Context) error {
	d.note("service drained")
	select {
	case <-d.hang:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type workerFunc func(context.Context) error

func (f workerFunc) Run(ctx context.Context) error { return f(ctx) }

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func TestShutdownOrder(t *testing.T) {
	d := &diary{hang: closed(), woken: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	inFlight, answered := make(chan struct{}), make(chan error, 1)
	p := &Process{
		Log: silent,
		Listeners: []Listener{{Name: "public", Addr: "127.0.0.1:0", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(inFlight)
			<-d.woken
			d.note("request answered")
			w.WriteHeader(http.StatusAccepted)
		})}},
		Service:    d,
		Worker:     workerFunc(d.part("worker")),
		Background: []func(context.Context) error{d.part("rules")},
		Drain:      func() { d.note("not ready") },
		Settle:     func(context.Context) error { d.note("settled"); return nil },
		Ready: func(addrs map[string]string) {
			go func() {
				resp, err := http.Post("http://"+addrs["public"], "", nil)
				if err == nil {
					err = resp.Body.Close()
				}
				answered <- err
			}()
			go func() { <-inFlight; cancel() }()
		},
	}
	if err := p.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Errorf("the request in flight: %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
	slices.Sort(d.notes[len(d.notes)-2:]) // these two stop together
	want := []string{"not ready", "waiters woken", "request answered", "service drained", "settled", "worker ended", "rules ended", "service ended"}
	if diff := cmp.Diff(want, d.notes); diff != "" {
		t.Error(diff)
	}
}

// TestNotReadyBeforeTheListenersAreOpen: the probe of a process that loads answers, and is not ready.
func TestNotReadyBeforeTheListenersAreOpen(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	d := &diary{hang: closed(), loads: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	opened := make(chan map[string]string, 1)
	p := &Process{Log: silent, Service: d, Ready: func(addrs map[string]string) { opened <- addrs }}
	p.Listeners = []Listener{
		{Name: "public", Addr: "127.0.0.1:0", Loaded: true, Handler: http.NotFoundHandler()},
		{Name: "internal", Addr: addr, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, p.opening.Load()) })},
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	opening := func() string { return string(servetest.Once("GET", "http://"+addr, "").Body) }
	for opening() == "" { // not listening yet
		runtime.Gosched()
	}
	if got := opening(); got != "true" {
		t.Errorf("while it loads: %q", got)
	}
	close(d.loads)
	if addrs := <-opened; addrs["public"] == "" || opening() != "false" {
		t.Errorf("afterwards: %v, %q", addrs, opening())
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAFailedPartEndsTheProcess(t *testing.T) {
	broken := errors.New("broken")
	for name, p := range map[string]*Process{
		"worker: broken":             {Worker: workerFunc(func(context.Context) error { return broken })},
		"background: broken":         {Background: []func(context.Context) error{func(context.Context) error { return broken }}},
		"worker: ended unexpectedly": {Worker: workerFunc(func(context.Context) error { return nil })},
	} {
		d := &diary{hang: closed()}
		p.Log, p.Service = silent, d
		if err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %s", err, name)
		}
		if !slices.Contains(d.notes, "service drained") {
			t.Errorf("%s: %v, want a drained service all the same", name, d.notes)
		}
	}
}

func TestShutdownIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p := &Process{
			Log: silent, Service: &diary{}, Shutdown: time.Second, Linger: time.Hour,
			Worker: workerFunc(func(context.Context) error { <-stuck; return nil }),
		}
		start := time.Now()
		err := p.Run(ctx)
		if !errors.Is(err, errGivenUp) || !strings.Contains(err.Error(), "timed out after 1s") || time.Since(start) > time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		close(stuck)
	})
}

// TestRedisStaysOpenForWhoIsStuck: Asynq panics when its client is closed, and the process would end with a stack trace instead
// of its error.
func TestRedisStaysOpenForWhoIsStuck(t *testing.T) {
	r, err := OpenRedis("redis://127.0.0.1:1/0", "redis://127.0.0.1:1/0", 0)
	if err != nil {
		t.Fatal(err)
	}
	isOpen := func() bool { return !errors.Is(r.Queue.Ping(t.Context()).Err(), redis.ErrClosed) }
	if r.CloseAfter(errors.Join(fmt.Errorf("%w after 1s", errGivenUp), context.Canceled)); !isOpen() {
		t.Error("Redis was closed under whoever is stuck")
	}
	if r.CloseAfter(context.Canceled); isOpen() {
		t.Error("Redis is open when all has ended")
	}
}

func TestBalancersHearOfALeave(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var (
		p       = &Process{Log: silent, Service: &diary{hang: closed()}, Linger: time.Second}
		left    = make(chan struct{})
		readyz  string
		leaving servetest.Answer
	)
	p.addProbes(&config.Config{WorkerListen: "127.0.0.1:0"}, func(context.Context) []orders.Condition { return nil }, http.NotFoundHandler())
	p.Ready = func(addrs map[string]string) {
		readyz = "http://" + addrs["worker"] + "/readyz"
		go func() {
			defer close(left)
			if a := servetest.Once("GET", readyz, ""); a.Status != http.StatusOK {
				t.Errorf("before: %v", a)
			}
			conn, err := net.Dial("tcp", addrs["worker"])
			if err != nil {
				t.Error(err)
			}
			kept := &kept{conn, bufio.NewReader(conn)}
			defer kept.close()
			if _, _, closes, err := kept.call("GET", "/livez", "", ""); closes || err != nil {
				t.Errorf("before, a connection closes: %t, %v", closes, err)
			}
			cancel()
			for leaving = servetest.Once("GET", readyz, ""); leaving.Status == http.StatusOK; {
				leaving = servetest.Once("GET", readyz, "") // over a new connection each time
			}
			if _, _, closes, err := kept.call("GET", "/livez", "", ""); !closes || err != nil {
				t.Errorf("while leaving, a connection closes: %t, %v", closes, err)
			}
		}()
	}
	if err := p.Run(ctx); err != nil {
		t.Error(err)
	}
	<-left
	if leaving.Status != http.StatusServiceUnavailable || !strings.Contains(string(leaving.Body), "draining") {
		t.Errorf("while leaving: %v", leaving)
	}
	if a := servetest.Once("GET", readyz, ""); a.Err == nil {
		t.Errorf("afterwards: %v", a)
	}
}

func TestATakenPortStopsTheStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	first := &Process{Log: silent, Service: &diary{hang: closed()}, Listeners: []Listener{{Name: "public", Addr: "127.0.0.1:0"}}}
	first.Ready = func(addrs map[string]string) {
		second := &Process{Log: silent, Service: &diary{hang: closed()}, Listeners: []Listener{{Name: "internal", Addr: addrs["public"]}}}
		if err := second.Run(ctx); err == nil || !strings.Contains(err.Error(), "internal listener") || !strings.Contains(err.Error(), "INTERNAL_LISTEN sets another") {
			t.Errorf("second process: %v", err)
		}
		cancel()
	}
	if err := first.Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestAwait(t *testing.T) {
	away := errors.New("connection refused")
	for _, tt := range []struct {
		name  string
		comes time.Duration // when the server answers
		fails bool
	}{
		{"is there", 0, false},
		{"comes in time", 20 * time.Second, false},
		{"never comes", time.Hour, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var said strings.Builder
				err := await(t.Context(), slog.New(slog.NewTextHandler(&said, nil)), 30*time.Second, dependency{
					variable: "REDIS_URL", at: config.URL("redis://:hunter2@redis.test:6379"),
					ping: func(context.Context) error {
						if time.Since(start) < tt.comes {
							return away
						}
						return nil
					},
				})
				if tt.fails != (err != nil) || time.Since(start) > 31*time.Second {
					t.Fatalf("after %v: %v", time.Since(start), err)
				}
				if tt.fails && (!errors.Is(err, away) || !strings.Contains(err.Error(), "REDIS_URL") || !strings.Contains(err.Error(), "redis.test:6379")) {
					t.Errorf("error %q", err)
				}
				if n := strings.Count(said.String(), "waiting"); tt.comes > 0 && (n < 4 || n > 7) {
					t.Errorf("said %d times that it waits:\n%s", n, &said)
				}
				if strings.Contains(said.String()+errorText(err), "hunter2") {
					t.Error("a password was printed")
				}
			})
		})
	}
}

// TestAwaitASlowServer: one whose answer takes longer than the first attempt may.
func TestAwaitASlowServer(t *testing.T) {
	for takes, fails := range map[time.Duration]bool{10 * time.Second: false, time.Hour: true} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			err := await(t.Context(), silent, 30*time.Second, dependency{ping: func(ctx context.Context) error {
				select {
				case <-time.After(takes):
					return nil
				case <-ctx.Done():
					return fmt.Errorf("read the schema: %w", ctx.Err())
				}
			}})
			if fails != (err != nil) || time.Since(start) > 31*time.Second {
				t.Errorf("an answer that takes %v, after %v: %v", takes, time.Since(start), err)
			}
		})
	}
}

func TestAwaitEndsWithTheProcess(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := await(ctx, silent, time.Hour, dependency{ping: func(ctx context.Context) error { return io.EOF }})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
