package orders

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// RunIDWatcher detects that a client is connected to another Redis process than before. That process may have lost data or have an
// earlier state: it may have been restarted from a file, or be a replica that was behind. Set OnConnect in the client's
// options, so that it precedes every command on a new connection. Commands may be in flight at that moment, and on a cluster a
// replica may be seen before it is promoted. Therefore reserve.lua also compares run ids, and the watch over the sales does so
// every second. Use NewRunIDWatcher.
type RunIDWatcher struct {
	mu         sync.Mutex
	runs       map[string]struct{} // ids of server processes, guarded by mu
	last       string              // guarded by mu
	cluster    bool
	generation atomic.Int64
	changed    chan struct{}
}

// NewRunIDWatcher returns a watcher for one client. On a cluster, connections lead to many servers, so only a server that was never seen
// before counts as a change.
func NewRunIDWatcher(cluster bool) *RunIDWatcher {
	return &RunIDWatcher{runs: make(map[string]struct{}), cluster: cluster, changed: make(chan struct{}, 1)}
}

// OnConnect asks the server for its run id.
func (f *RunIDWatcher) OnConnect(ctx context.Context, conn *redis.Conn) error {
	run, err := runID(ctx, conn)
	if err != nil {
		return err
	}
	f.mu.Lock()
	_, met := f.runs[run]
	change := run != f.last && !(f.cluster && met)
	f.runs[run], f.last = struct{}{}, run
	if change {
		f.generation.Add(1)
	}
	f.mu.Unlock()
	if change {
		poke(f.changed)
	}
	return nil
}

type infoer interface {
	Info(ctx context.Context, section ...string) *redis.StringCmd
}

// runID returns the id that a Redis process takes at its start. The embedded Redis has none, and needs none: a new one is
// always empty. A server that refuses to return it causes an error, because its restarts would go unnoticed.
func runID(ctx context.Context, server infoer) (string, error) {
	info, err := server.Info(ctx, "server").Result()
	var refused redis.Error
	if errors.As(err, &refused) && strings.HasSuffix(refused.Error(), "is not supported") {
		return "unknown", nil
	} else if err != nil {
		return "", err
	}
	for line := range strings.Lines(info) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return "", errors.New("orders: INFO server names no run_id")
}
