// Package replica runs a script of Redis whose writes have to be on a replica before its reply counts.
package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/batch"
	"github.com/tidegate/tidegate/internal/redisscript"
)

const (
	batchMax      = 300                    // reservations that share one WAIT
	batchesAtOnce = 2                      // per master: while one waits, the next is written
	grace         = 300 * time.Millisecond // for the reply of a WAIT that timed out: an idle Redis checks ten times a second
	movedPoll     = 5 * time.Millisecond   // between two reads of the cluster's layout
)

var errNoReplica = errors.New("no replica has it in time")

// A Waiter runs a script whose writes must be on a replica before its reply counts. WAIT covers the writes of its own connection,
// and a pipeline uses one connection: concurrent callers share a pipeline, with their scripts first and one WAIT at the end.
// Scripts that only read wait too. Safe for concurrent use.
type Waiter struct {
	rdb     redis.UniversalClient
	script  *redisscript.Script
	timeout time.Duration // longest that a caller waits

	mu      sync.Mutex
	masters map[string]*master // by address of a master, guarded by mu
}

// New returns a waiter. The timeout bounds runs whose context has no deadline.
func New(rdb redis.UniversalClient, script *redisscript.Script, timeout time.Duration) (*Waiter, error) {
	switch rdb.(type) {
	case *redis.Client, *redis.ClusterClient:
		return &Waiter{rdb: rdb, script: script, timeout: timeout, masters: make(map[string]*master)}, nil
	}
	return nil, fmt.Errorf("orders: durability replicated needs a client of one server, of Sentinel or of a cluster, not a %T", rdb)
}

// Run runs the script and returns its reply once a replica has its writes. After an error it is unknown whether the script ran.
func (w *Waiter) Run(ctx context.Context, keys []string, args []any) (redisscript.Reply, error) {
	for again := false; ; again = true {
		m, err := w.masterOf(ctx, keys[0])
		if err != nil {
			return redisscript.Reply{}, err
		}
		reply, err := m.calls.Do(context.WithoutCancel(ctx), call{ctx, keys, args}) // write bounds the time
		if errors.Is(err, batch.ErrNotRun) {                                        // hidden: the caller is in a batch of its own, which did run
			return redisscript.Reply{}, errors.New("replica: " + err.Error())
		}
		if err == nil || again || !w.moved(ctx, keys[0], m, err) {
			return reply, err
		}
	}
}

// masterOf returns the master that has a key.
func (w *Waiter) masterOf(ctx context.Context, key string) (*master, error) {
	var client *redis.Client
	switch rdb := w.rdb.(type) {
	case *redis.Client:
		client = rdb
	case *redis.ClusterClient:
		var err error
		if client, err = rdb.MasterForKey(ctx, key); err != nil {
			return nil, err
		}
	}
	addr := client.Options().Addr
	w.mu.Lock()
	defer w.mu.Unlock()
	m, ok := w.masters[addr]
	if !ok || m.client != client { // a node that left and came back has a new client
		m = &master{Waiter: w, client: client, slow: client.WithTimeout(w.timeout + grace)}
		m.calls = batch.New(batchMax, batchesAtOnce, m.write)
		w.masters[addr] = m
	}
	return m, nil
}

// moved handles a MOVED error: it waits until the cluster's new layout is known, and reports whether the script may be sent
// again. It has not run then.
func (w *Waiter) moved(ctx context.Context, key string, from *master, err error) bool {
	cluster, ok := w.rdb.(*redis.ClusterClient)
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
		if m, err := w.masterOf(ctx, key); err == nil && m != from {
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

// call is one run of the script.
type call struct {
	ctx  context.Context
	keys []string
	args []any
}

type calls = []*batch.Call[call, redisscript.Reply]

// master joins the calls to one master.
type master struct {
	*Waiter
	client *redis.Client
	slow   *redis.Client // the same connections, with a longer timeout
	calls  *batch.Batcher[call, redisscript.Reply]
}

func (m *master) write(ctx context.Context, all calls) {
	var deadline time.Time // the latest of the batch; callers with earlier ones stop waiting by themselves
	alive := make(calls, 0, len(all))
	for _, c := range all {
		if err := c.In.ctx.Err(); err != nil {
			c.Err = fmt.Errorf("not sent: %w", err)
			continue
		}
		alive = append(alive, c)
		until, ok := c.In.ctx.Deadline()
		if !ok {
			until = time.Now().Add(m.timeout)
		}
		if until.After(deadline) {
			deadline = until
		}
	}
	if len(alive) == 0 {
		return
	}
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(grace))
	defer cancel()
	if unknown := m.send(ctx, deadline, alive, false); len(unknown) > 0 {
		m.send(ctx, deadline, unknown, true)
	}
}

// send sets the results of the calls, except those whose script Redis does not have, which it returns.
func (m *master) send(ctx context.Context, deadline time.Time, all calls, load bool) (unknown calls) {
	cmds := make([]*redis.Cmd, len(all))
	var copies *redis.Cmd
	_, _ = m.slow.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its own error
		for i, c := range all {
			cmds[i] = m.script.Queue(ctx, p, load, c.In.keys, c.In.args)
		}
		copies = p.Do(ctx, "WAIT", 1, max(1, time.Until(deadline).Milliseconds())) // 0 would wait forever
		return nil
	})
	n, err := copies.Int64()
	if err == nil && n == 0 {
		err = errNoReplica
	}
	for i, c := range all {
		reply := redisscript.ReplyOf(cmds[i])
		switch {
		case reply.Unknown():
			unknown = append(unknown, c)
		case reply.Err() != nil:
			c.Err = reply.Err()
		case err != nil:
			c.Err = err
		default:
			c.Out = reply
		}
	}
	return unknown
}
