package orders

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	replicaBatchMax      = 300                    // reservations that share one WAIT
	replicaBatchesAtOnce = 2                      // per master: while one waits, the next is written
	replicaGrace         = 300 * time.Millisecond // for the reply of a WAIT that timed out: an idle Redis checks ten times a second
	movedPoll            = 5 * time.Millisecond   // between two reads of the cluster's layout
)

var errNoReplica = errors.New("no replica has it in time")

// replicaWaiter runs a script whose writes must be on a replica before its reply counts. WAIT covers the writes of its own connection,
// and a pipeline uses one connection: concurrent callers share a pipeline, with their scripts first and one WAIT at the end.
// Scripts that only read wait too. Safe for concurrent use.
type replicaWaiter struct {
	rdb     redis.UniversalClient
	script  *redis.Script
	timeout time.Duration // longest that a caller waits

	mu      sync.Mutex
	masters map[string]*masterBatches // by address of a master, guarded by mu
}

func newReplicaWaiter(rdb redis.UniversalClient, script *redis.Script, timeout time.Duration) (*replicaWaiter, error) {
	switch rdb.(type) {
	case *redis.Client, *redis.ClusterClient:
		return &replicaWaiter{rdb: rdb, script: script, timeout: timeout, masters: make(map[string]*masterBatches)}, nil
	}
	return nil, fmt.Errorf("orders: durability replicated needs a client of one server, of Sentinel or of a cluster, not a %T", rdb)
}

// run runs the script and returns its reply once a replica has its writes. After an error it is unknown whether the script ran.
func (g *replicaWaiter) run(ctx context.Context, keys []string, args []any) ([]any, error) {
	for again := false; ; again = true {
		l, err := g.masterOf(ctx, keys[0])
		if err != nil {
			return nil, err
		}
		c := &call{ctx: ctx, keys: keys, args: args, done: make(chan struct{})}
		l.add(c)
		<-c.done
		if c.err == nil || again || !g.moved(ctx, keys[0], l, c.err) {
			return c.reply, c.err
		}
	}
}

// masterOf returns the batches for the master that has a key.
func (g *replicaWaiter) masterOf(ctx context.Context, key string) (*masterBatches, error) {
	var master *redis.Client
	switch rdb := g.rdb.(type) {
	case *redis.Client:
		master = rdb
	case *redis.ClusterClient:
		var err error
		if master, err = rdb.MasterForKey(ctx, key); err != nil {
			return nil, err
		}
	}
	addr := master.Options().Addr
	g.mu.Lock()
	defer g.mu.Unlock()
	l, ok := g.masters[addr]
	if !ok || l.master != master { // a node that left and came back has a new client
		l = &masterBatches{replicaWaiter: g, master: master, slow: master.WithTimeout(g.timeout + replicaGrace)}
		g.masters[addr] = l
	}
	return l, nil
}

// moved handles a MOVED error: it waits until the cluster's new layout is known, and reports whether the script may be sent
// again. It has not run then.
func (g *replicaWaiter) moved(ctx context.Context, key string, from *masterBatches, err error) bool {
	cluster, ok := g.rdb.(*redis.ClusterClient)
	if !ok {
		return false
	}
	cluster.ReloadState(ctx) // also after a connection broke: its master may be gone for good
	if _, ok := redis.IsMovedError(err); !ok {
		return false
	}
	ticker := time.NewTicker(movedPoll)
	defer ticker.Stop()
	for {
		if l, err := g.masterOf(ctx, key); err == nil && l != from {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
		cluster.ReloadState(ctx) // the server that was asked may be the last to learn the new layout
	}
}

// call is one run of the script. The goroutine that closes done sets reply and err first.
type call struct {
	ctx   context.Context
	keys  []string
	args  []any
	reply []any
	err   error
	done  chan struct{}
}

func (c *call) finish(reply []any, err error) {
	c.reply, c.err = reply, err
	close(c.done)
}

// masterBatches gathers the calls to one master.
type masterBatches struct {
	*replicaWaiter
	master *redis.Client
	slow   *redis.Client // the same connections, with a longer timeout

	mu       sync.Mutex
	waiting  []*call // guarded by mu
	underWay int     // groups, guarded by mu
}

func (l *masterBatches) add(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, c)
	if l.underWay < replicaBatchesAtOnce {
		l.underWay++
		go l.work()
	}
}

// work writes groups until no call is waiting.
func (l *masterBatches) work() {
	for {
		l.mu.Lock()
		group := l.waiting[:min(len(l.waiting), replicaBatchMax)]
		l.waiting = l.waiting[len(group):]
		if len(group) == 0 {
			l.underWay--
		}
		l.mu.Unlock()
		if len(group) == 0 {
			return
		}
		l.write(group)
	}
}

func (l *masterBatches) write(group []*call) {
	var deadline time.Time // the latest of the group; callers with earlier ones stop waiting by themselves
	alive := make([]*call, 0, len(group))
	for _, c := range group {
		if err := c.ctx.Err(); err != nil {
			c.finish(nil, fmt.Errorf("not sent: %w", err))
			continue
		}
		alive = append(alive, c)
		until, ok := c.ctx.Deadline()
		if !ok {
			until = time.Now().Add(l.timeout)
		}
		if until.After(deadline) {
			deadline = until
		}
	}
	if len(alive) == 0 {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline.Add(replicaGrace))
	defer cancel()
	if unknown := l.send(ctx, deadline, alive, l.script.EvalSha); len(unknown) > 0 {
		l.send(ctx, deadline, unknown, l.script.Eval)
	}
}

// send finishes the calls, except those whose script Redis does not have, which it returns.
func (l *masterBatches) send(ctx context.Context, deadline time.Time, group []*call,
	eval func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd,
) (unknown []*call) {
	replies := make([]*redis.Cmd, len(group))
	var copies *redis.Cmd
	_, _ = l.slow.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its own error
		for i, c := range group {
			replies[i] = eval(ctx, p, c.keys, c.args...)
		}
		copies = p.Do(ctx, "WAIT", 1, max(1, time.Until(deadline).Milliseconds())) // 0 would wait forever
		return nil
	})
	n, err := copies.Int64()
	if err == nil && n == 0 {
		err = errNoReplica
	}
	for i, c := range group {
		reply, failed := replies[i].Slice()
		switch {
		case redis.HasErrorPrefix(failed, "NOSCRIPT"):
			unknown = append(unknown, c)
		case failed != nil:
			c.finish(nil, failed)
		case err != nil:
			c.finish(nil, err)
		default:
			c.finish(reply, nil)
		}
	}
	return unknown
}
