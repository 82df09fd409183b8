package redisclient

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// RunIDWatcher detects that a client is connected to another Redis process than before. That process may have lost data or have
// an earlier state: it may have been restarted from a file, or be a replica that was behind. OnConnect precedes every command on
// a new connection. Commands may be in flight at that moment, and on a cluster a replica may be seen before it is promoted: a
// caller that must not miss a change also compares run ids itself, as package orders does in its scripts. Use NewRunIDWatcher.
// Safe for concurrent use.
type RunIDWatcher struct {
	mu         sync.Mutex
	runs       map[string]struct{} // ids of server processes, guarded by mu
	last       string              // guarded by mu
	cluster    bool
	generation atomic.Int64
	notify     []chan<- struct{} // guarded by mu
}

// newRunIDWatcher returns a watcher for one client. On a cluster, connections lead to many servers, so only a server that was never seen
// before counts as a change.
func newRunIDWatcher(cluster bool) *RunIDWatcher {
	return &RunIDWatcher{runs: make(map[string]struct{}), cluster: cluster}
}

// onConnect asks the server for its run id, and refuses a node of a cluster in a client that would not follow its redirections.
func (w *RunIDWatcher) onConnect(ctx context.Context, conn *redis.Conn) error {
	p, err := ask(ctx, conn)
	if err != nil {
		return err
	}
	if p.cluster && !w.cluster {
		return ErrClusterNode
	}
	run := p.runID
	w.mu.Lock()
	defer w.mu.Unlock()
	_, met := w.runs[run]
	change := run != w.last && !(w.cluster && met)
	w.runs[run], w.last = struct{}{}, run
	if change {
		w.changed()
	}
	return nil
}

// Generation grows whenever another server is detected. What was read in an earlier generation has to be verified again.
func (w *RunIDWatcher) Generation() int64 { return w.generation.Load() }

// Invalidate counts as the detection of another server.
func (w *RunIDWatcher) Invalidate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed()
}

// changed is called with mu locked.
func (w *RunIDWatcher) changed() {
	w.generation.Add(1)
	for _, ch := range w.notify {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// Notify sends to ch whenever another server is detected, as signal.Notify does: it does not block, so ch needs a buffer.
func (w *RunIDWatcher) Notify(ch chan<- struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notify = append(w.notify, ch)
}

type infoer interface {
	Info(ctx context.Context, section ...string) *redis.StringCmd
}

// RunID returns the id that a Redis process takes at its start. The embedded Redis has none, and needs none: a new one is
// always empty. A server that refuses to return it causes an error, because its restarts would go unnoticed.
func RunID(ctx context.Context, server infoer) (string, error) {
	s, err := ask(ctx, server)
	return s.runID, err
}

// process is what a Redis process reports about itself.
type process struct {
	runID   string
	cluster bool // it is a node of a Redis Cluster
}

func ask(ctx context.Context, server infoer) (p process, err error) {
	info, err := server.Info(ctx, "server").Result()
	var refused redis.Error
	if errors.As(err, &refused) && strings.HasSuffix(refused.Error(), "is not supported") {
		return process{runID: "unknown"}, nil
	} else if err != nil {
		return process{}, err
	}
	for line := range strings.Lines(info) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name {
		case "run_id":
			p.runID = value
		case "redis_mode", "server_mode": // the latter is Valkey's
			p.cluster = value == "cluster"
		}
	}
	if p.runID == "" {
		return process{}, errors.New("redisclient: INFO server names no run_id")
	}
	return p, nil
}
