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
	groupMax     = 300                    // reservations that share one waiting
	groupsAtOnce = 2                      // to one master: while one waits the next is written
	groupGrace   = 300 * time.Millisecond // for the answer of a WAIT that ran out: a quiet Redis looks ten times a second
	movedPoll    = 5 * time.Millisecond   // between two looks at what is known of a cluster's layout
)

var errNotKept = errors.New("no replica has it in time")

// groups run a script whose writes a replica has to have before its reply
// counts. WAIT covers what was written on its own connection, and one pipeline
// is on one connection: callers that come together share one, their scripts
// first and one WAIT at its end. What only reads waits with the others. Safe for
// concurrent use.
type groups struct {
	rdb     redis.UniversalClient
	script  *redis.Script
	timeout time.Duration // longest that a caller waits

	mu    sync.Mutex
	lanes map[string]*lane // by address of a master, guarded by mu
}

func newGroups(rdb redis.UniversalClient, script *redis.Script, timeout time.Duration) (*groups, error) {
	switch rdb.(type) {
	case *redis.Client, *redis.ClusterClient:
		return &groups{rdb: rdb, script: script, timeout: timeout, lanes: make(map[string]*lane)}, nil
	}
	return nil, fmt.Errorf("orders: durability replicated needs a client of one server, of Sentinel or of a cluster, not a %T", rdb)
}

// run runs the script and returns its reply once a replica has what it wrote.
// An error tells nothing of whether it ran.
func (g *groups) run(ctx context.Context, keys []string, args []any) ([]any, error) {
	for again := false; ; again = true {
		l, err := g.lane(ctx, keys[0])
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

// lane returns the one of the master that has a key.
func (g *groups) lane(ctx context.Context, key string) (*lane, error) {
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
	l, ok := g.lanes[addr]
	if !ok || l.master != master { // a node that left and came back has another client
		l = &lane{groups: g, master: master, patient: master.WithTimeout(g.timeout + groupGrace)}
		g.lanes[addr] = l
	}
	return l, nil
}

// moved waits until it is known who has the key now, if that is what an error
// is about. The script has not run then, so it may be sent again.
func (g *groups) moved(ctx context.Context, key string, from *lane, err error) bool {
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
		if l, err := g.lane(ctx, key); err == nil && l != from {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
		cluster.ReloadState(ctx) // the server that was asked may have been the last to hear
	}
}

// call is one run of the script. Who closes done has set the rest.
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

// lane gathers the calls to one master.
type lane struct {
	*groups
	master  *redis.Client
	patient *redis.Client // the same connections, with time to wait

	mu       sync.Mutex
	waiting  []*call // guarded by mu
	underWay int     // groups, guarded by mu
}

func (l *lane) add(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, c)
	if l.underWay < groupsAtOnce {
		l.underWay++
		go l.work()
	}
}

// work writes groups until nobody waits.
func (l *lane) work() {
	for {
		l.mu.Lock()
		group := l.waiting[:min(len(l.waiting), groupMax)]
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

func (l *lane) write(group []*call) {
	var deadline time.Time // of the most patient: the others are told by themselves
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
	ctx, cancel := context.WithDeadline(context.Background(), deadline.Add(groupGrace))
	defer cancel()
	if unknown := l.send(ctx, deadline, alive, l.script.EvalSha); len(unknown) > 0 {
		l.send(ctx, deadline, unknown, l.script.Eval)
	}
}

// send finishes the calls, but for those whose script Redis does not know.
func (l *lane) send(ctx context.Context, deadline time.Time, group []*call,
	eval func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd,
) (unknown []*call) {
	replies := make([]*redis.Cmd, len(group))
	var copies *redis.Cmd
	_, _ = l.patient.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has an error of its own
		for i, c := range group {
			replies[i] = eval(ctx, p, c.keys, c.args...)
		}
		copies = p.Do(ctx, "WAIT", 1, max(1, time.Until(deadline).Milliseconds())) // 0 would be without end
		return nil
	})
	n, err := copies.Int64()
	if err == nil && n == 0 {
		err = errNotKept
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
