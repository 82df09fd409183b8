package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/login"
	"github.com/tidegate/tidegate/orders/memory"
	"github.com/tidegate/tidegate/orders/shop"
	"github.com/tidegate/tidegate/redisclient"
	"github.com/tidegate/tidegate/semaphore"
	"github.com/tidegate/tidegate/waitingroom"
	rooms "github.com/tidegate/tidegate/waitingroom/memory"
)

// process is an API or a worker.
type process struct {
	w         *World
	name      string
	links     *links
	client    *redisclient.Client
	store     *memory.Store
	queue     *memory.QueueConn
	service   *shop.Service
	places    *rooms.Store
	rooms     *waitingroom.Service
	gate      *admission.Gate
	semaphore *semaphore.Semaphore
	logins    *login.Throttle
	log       *slog.Logger
	killed    chan struct{} // closed when it is
	dead      atomic.Bool
	failsIn   atomic.Int64 // the database fails once in so many operations; 0: never
	stop      context.CancelFunc
	ended     chan struct{} // Run has returned
}

// start starts a process. One that cannot open its shop yet tries again, as an orchestrator would.
func (w *World) start(kind string, acceptOnly bool) (*process, error) {
	w.mu.Lock()
	w.started++
	p := &process{
		w: w, name: fmt.Sprintf("%s-%d", kind, w.started), links: &links{chance: w.chance},
		queue: w.queue.Connect(), ended: make(chan struct{}), killed: make(chan struct{}),
	}
	w.mu.Unlock()
	opts, err := redisclient.ParseURL(fmt.Sprintf("redis://%s:%d", w.redis[0].host(), redisPort))
	if err != nil {
		return nil, err
	}
	opts.IsClusterMode = len(w.redis) > 1
	opts.Dialer = func(_ context.Context, _, addr string) (net.Conn, error) {
		for _, r := range w.redis {
			if host, _, err := net.SplitHostPort(addr); err == nil && host == r.host() {
				return p.links.dial(r)
			}
		}
		return nil, fmt.Errorf("there is no Redis at %s", addr)
	}
	opts.Protocol, opts.DisableIdentity = 2, true
	if p.client, err = redisclient.New(opts); err != nil {
		return nil, err
	}
	p.log = slog.New(w.log.WithAttrs([]slog.Attr{slog.String("process", p.name)}))
	p.store = w.db.Connect(memory.Faults{Around: p.around})
	ctx, stop := context.WithCancel(w.ctx)
	p.stop = stop
	for {
		p.service, err = shop.Open(ctx, p.client, p.store, p.queue, shop.Options{
			Namespace: "simulated", AcceptOnly: acceptOnly, CommitOnly: !acceptOnly && w.chance.oneIn(2), Program: kind, Logger: p.log,
		})
		if err == nil {
			break
		}
		w.trace("%s does not start: %v", p.name, err)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	w.mu.Lock()
	if !w.history.StartedAt.IsZero() && !w.settled { // it is one that replaces another
		p.unsettle()
	}
	w.mu.Unlock()
	p.openRooms()
	if err := p.openMethod(); err != nil {
		return nil, err
	}
	if err := p.openLogins(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		var g errgroup.Group
		g.Go(func() error { return p.service.Run(ctx) })
		if w.shape.Visitors > 0 {
			g.Go(func() error { return p.rooms.Run(ctx) })
		}
		if w.shape.Callers > 0 {
			g.Go(func() error { return p.gate.Run(ctx) })
			g.Go(func() error { return p.semaphore.Run(ctx) })
		}
		if w.shape.Users > 0 {
			g.Go(func() error { return p.logins.Run(ctx) })
		}
		if err := g.Wait(); err != nil && ctx.Err() == nil {
			w.breach("run", "%s ended: %v", p.name, err)
		}
	}()
	return p, nil
}

// around is what the database does for a process: nothing for a dead one.
func (p *process) around(ctx context.Context, _ memory.Op, do func() error) error {
	c := p.w.chance
	select {
	case <-time.After(c.upTo(2*time.Millisecond) + p.links.held()):
	case <-ctx.Done():
		return ctx.Err()
	}
	if p.dead.Load() {
		return memory.ErrConnectionLost
	}
	if !c.oneIn(int(p.failsIn.Load())) {
		return do()
	}
	switch c.between(1, 5) {
	case 1:
		return memory.SerializationFailure
	case 2:
		return memory.DeadlockDetected
	case 3:
		return memory.AdminShutdown
	case 4:
		return memory.ErrConnectionLost
	}
	if err := do(); err != nil {
		return err
	}
	return memory.ErrConnectionLost // it was done, and the reply is lost
}

// unsettle makes links and the database as bad as the world's are; settle makes them good.
func (p *process) unsettle() {
	p.links.cutIn.Store(int64(p.w.shape.CutIn))
	p.links.slow.Store(int64(time.Duration(p.w.shape.SlowMost) * time.Millisecond))
	p.failsIn.Store(int64(p.w.shape.DatabaseFailsIn))
}

func (p *process) settle() {
	p.links.cutIn.Store(0)
	p.links.slow.Store(0)
	p.links.down.Store(false)
	p.failsIn.Store(0)
}

// kill ends a process from one moment to the next: nothing that it does reaches anything any more.
func (p *process) kill() {
	p.dead.Store(true)
	close(p.killed)
	p.links.down.Store(true)
	p.links.cut()
	p.queue.Disconnect()
	p.store.Disconnect()
	p.places.Disconnect()
	p.stop()
}

// close ends a process, whether it was killed or not.
func (p *process) close() error {
	p.stop()
	<-p.ended
	p.store.Disconnect()
	p.places.Disconnect()
	if err := p.client.Close(); err != nil && !p.dead.Load() {
		return err
	}
	return nil
}
