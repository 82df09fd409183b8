// Package serve contains the parts of the programs: clients and how long to wait for their servers, listeners, and the shutdown
// order.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/connections"
	"github.com/tidegate/tidegate/internal/httpapi"
	"github.com/tidegate/tidegate/internal/metrics"
	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/internal/reload"
)

// DefaultShutdown is below the 30 s after which orchestrators kill a process.
const DefaultShutdown = 25 * time.Second

// errGivenUp is in the error of Run if some part still runs.
var errGivenUp = errors.New("shutdown timed out")

// Service is what a Process needs of shop.Service.
type Service interface {
	Run(context.Context) error
	WaitLoaded(context.Context) error
	WakeWaiters()
	Drain(context.Context) error
}

// runner processes a queue, like reports.Worker.
type runner interface {
	Run(context.Context) error
}

// A Listener is an address and its handler.
type Listener struct {
	Name    string
	Addr    string
	Handler http.Handler
	Loaded  bool           // it opens when the service has loaded what it needs to serve, so that no caller of a rolling restart is refused
	Public  bool           // it gets most of the connections, of which one address may hold half
	Proxies []netip.Prefix // addresses that may hold all connections, besides this machine's
}

// A Process is the parts of one running program. The zero value is not usable: Log and Service are required, and AddHTTP
// requires Metrics.
type Process struct {
	Log        *slog.Logger
	Tracer     trace.Tracer // nil: no tracing
	Metrics    *metrics.Metrics
	Reloaded   []func() reload.State // settings that are read again while the process runs
	Listeners  []Listener
	Service    Service
	Worker     runner                        // a further queue; nil: none
	Background []func(context.Context) error // further parts, which run until everything is drained
	Drain      func()                        // makes readyz answer 503; nil: nothing to do
	// after Drain, how long new connections are served, so that load balancers notice, and then how long idle ones stay; 0 = not at all
	Linger time.Duration
	// waits until nothing is left to commit, before Service is stopped; nil: the queue outlives the process
	Settle    func(context.Context) error
	Ready     func(addrs map[string]string) // called once with the actual address of every listener; nil: not called
	Servers   int                           // connections to Redis and Postgres that the process may need
	KeepAlive time.Duration                 // of idle connections; 0 = httpapi.DefaultKeepAlive
	Shutdown  time.Duration                 // bound of the whole shutdown; 0 = DefaultShutdown

	opening atomic.Bool // listeners that wait for the service are not open yet
}

// Run serves until ctx ends or a part fails. Then it shuts down in this order, one step after the other, all within Shutdown:
//
//  1. readyz answers 503, waits are answered, and the answer to each request that arrives then closes its connection; after Linger the
//     listeners close, and after another Linger the connections that no request came over; requests in flight are answered
//  2. accepted orders in memory are committed; if the queue does not outlive the process, all queued ones too
//  3. the tasks of Worker end or are requeued
//  4. the remaining parts stop: the service, whose tasks end or are requeued, the rules' reload, timers
//  5. the caller closes the database, and Redis unless errGivenUp is in the error
//
// It returns nil if only ctx ended and every step succeeded.
func (p *Process) Run(ctx context.Context) error {
	var draining atomic.Bool
	loaded := func(l Listener) bool { return l.Loaded }
	p.opening.Store(slices.ContainsFunc(p.Listeners, loaded))
	bounds, err := p.bounds()
	if err != nil {
		return err
	}
	servers, err := p.listen(ctx, bounds, &draining, func(l Listener) bool { return !loaded(l) })
	if err != nil {
		return err
	}
	// The parts do not get ctx: it only starts the shutdown, which stops them in order.
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBackground()
	working, stopWorking := context.WithCancel(background)
	defer stopWorking()
	worked := make(chan struct{})

	g, leaving := errgroup.WithContext(ctx)
	g.Go(func() error { return endless(background, "orders", p.Service.Run) })
	g.Go(func() error { return endless(background, "log", p.reportDropped) })
	for _, run := range p.Background {
		g.Go(func() error { return endless(background, "background", run) })
	}
	g.Go(func() error {
		defer close(worked)
		if p.Worker == nil {
			return nil
		}
		return endless(working, "worker", p.Worker.Run)
	})
	for _, s := range servers {
		g.Go(s.serve)
	}
	loading, stopLoading := context.WithTimeout(leaving, loadMost)
	if err := p.Service.WaitLoaded(loading); err != nil && leaving.Err() == nil {
		p.Log.Warn("the sales are not loaded yet, and callers are let in nevertheless", "after", loadMost)
	}
	stopLoading()
	if leaving.Err() == nil {
		late, err := p.listen(ctx, bounds, &draining, loaded)
		for _, s := range late {
			g.Go(s.serve)
		}
		if servers = append(servers, late...); err != nil {
			g.Go(func() error { return err })
		} else {
			p.opening.Store(false)
			if p.Ready != nil {
				p.Ready(addresses(servers))
			}
		}
	}

	<-leaving.Done()
	p.Log.Info("shutting down", "within", p.bound())
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.bound())
	defer cancel()

	if p.Drain != nil {
		p.Drain()
	}
	p.Service.WakeWaiters()
	draining.Store(true)
	periodic.Pause(within, p.Linger)
	for _, s := range servers {
		_ = s.listener.Close()
	}
	idle, enough := context.WithTimeout(within, p.Linger)
	for slices.ContainsFunc(servers, (*server).connected) && periodic.Pause(idle, lookEvery) {
	}
	enough()
	// A client that keeps its connection must not use up the time of the following steps.
	closing, stopClosing := context.WithTimeout(within, p.bound()/2)
	defer stopClosing()
	errs := []error{closeAll(closing, servers)}
	errs = append(errs, wrap("commit remembered orders", p.Service.Drain(within)))
	if p.Settle != nil {
		errs = append(errs, wrap("commit queued orders", p.Settle(within)))
	}
	stopWorking()
	select {
	case <-worked:
	case <-within.Done():
	}
	stopBackground()

	ended := make(chan error, 1)
	go func() { ended <- g.Wait() }()
	select {
	case err := <-ended:
		errs = append(errs, err)
	case <-within.Done():
		errs = append(errs, fmt.Errorf("%w after %v", errGivenUp, p.bound()))
	}
	return errors.Join(errs...)
}

const (
	loadMost  = 10 * time.Second // how long listeners wait for what they serve
	lookEvery = 5 * time.Millisecond
)

func (p *Process) bound() time.Duration {
	if p.Shutdown == 0 {
		return DefaultShutdown
	}
	return p.Shutdown
}

// endless runs a part that must only end when ctx is cancelled.
func endless(ctx context.Context, part string, run func(context.Context) error) error {
	err := run(ctx)
	switch {
	case ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)):
		return nil
	case err == nil:
		return fmt.Errorf("%s: ended unexpectedly", part)
	}
	return wrap(part, err)
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

type server struct {
	name     string
	listener net.Listener
	http     *http.Server
	bound    *connections.Bound
}

// connected reports whether some client has a connection.
func (s *server) connected() bool { return s.bound.Stats().Open > 0 }

// bounds returns the bounds of the listeners' connections, by name, and adds their metrics.
func (p *Process) bounds() (map[string]*connections.Bound, error) {
	shares, err := connections.Divide(p.Servers, p.Log)
	if err != nil {
		return nil, err
	}
	bounds := make(map[string]*connections.Bound, len(p.Listeners))
	for _, l := range p.Listeners {
		opts := connections.Options{Name: l.Name, Most: shares.Internal, Refusal: httpapi.TooManyConnections(), Log: p.Log}
		if l.Public {
			opts.Most, opts.PerAddress = shares.Public, max(shares.Public/2, 1)
			opts.Exempt = func(a netip.Addr) bool {
				a = auth.Canonical(a)
				return a.IsLoopback() || slices.ContainsFunc(l.Proxies, func(n netip.Prefix) bool { return n.Contains(a) })
			}
		}
		bounds[l.Name] = connections.New(opts)
	}
	if p.Metrics != nil {
		p.Metrics.Connections(bounds)
	}
	return bounds, nil
}

// leave makes each answer close its connection once the process is draining: a client whose connection is closed between two
// requests may be sending the next one.
func leave(next http.Handler, draining *atomic.Bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// listenSettings are the settings of the listeners' addresses, by name.
var listenSettings = map[string]string{"public": "LISTEN", "internal": "INTERNAL_LISTEN", "worker": "WORKER_LISTEN"}

// listen opens those listeners, all of them before one serves, so that a port in use fails the start.
func (p *Process) listen(
	ctx context.Context, bounds map[string]*connections.Bound, draining *atomic.Bool, those func(Listener) bool,
) (servers []*server, err error) {
	defer func() {
		if err != nil {
			for _, s := range servers {
				_ = s.listener.Close()
			}
		}
	}()
	for _, l := range p.Listeners {
		if !those(l) {
			continue
		}
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", l.Addr)
		if err != nil {
			if errors.Is(err, syscall.EADDRINUSE) {
				_, port, _ := net.SplitHostPort(l.Addr)
				err = fmt.Errorf("%w: lsof -i :%s shows by which program; %s sets another address", err, port, listenSettings[l.Name])
			}
			return servers, fmt.Errorf("%s listener: %w", l.Name, err)
		}
		p.Log.Info("listening", "listener", l.Name, "addr", listener.Addr().String())
		serving := httpapi.Server(leave(l.Handler, draining), p.KeepAlive)
		serving.ErrorLog = slog.NewLogLogger(p.Log.Handler(), slog.LevelDebug) // broken handshakes and disconnects
		s := &server{name: l.Name, listener: bounds[l.Name].Listener(httpapi.Listener(listener)), http: serving, bound: bounds[l.Name]}
		serving.ConnState = s.bound.State
		servers = append(servers, s)
	}
	return servers, nil
}

func (s *server) serve() error {
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("%s listener: %w", s.name, err)
	}
	return nil
}

func closeAll(ctx context.Context, servers []*server) error {
	var g errgroup.Group
	for _, s := range servers {
		g.Go(func() error {
			err := s.http.Shutdown(ctx)
			if errors.Is(err, net.ErrClosed) { // the listener, which was closed before
				err = nil
			}
			if err != nil {
				_ = s.http.Close()
			}
			return wrap("finish requests of the "+s.name+" listener", err)
		})
	}
	return g.Wait()
}

func addresses(servers []*server) map[string]string {
	addrs := make(map[string]string, len(servers))
	for _, s := range servers {
		addrs[s.name] = s.listener.Addr().String()
	}
	return addrs
}
