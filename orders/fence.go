package orders

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Fence notices that a client talks to another Redis process than before. That
// one may have forgotten, or remember an earlier moment: it may have been
// restarted from a file, or be a replica that was behind. Its OnConnect goes
// into the options of the client, so that no command precedes it on any new
// connection. A request may be on its way meanwhile, and on a cluster a replica
// be met before it is promoted: so reserve.lua compares too, and the watch over
// the sales within a second. Use NewFence.
type Fence struct {
	mu         sync.Mutex
	runs       map[string]struct{} // ids of server processes, guarded by mu
	last       string              // guarded by mu
	cluster    bool
	generation atomic.Int64
	changed    chan struct{}
}

// NewFence returns a fence for one client. On a cluster connections lead to
// many servers, so only one never met before counts as a change there.
func NewFence(cluster bool) *Fence {
	return &Fence{runs: make(map[string]struct{}), cluster: cluster, changed: make(chan struct{}, 1)}
}

// OnConnect asks the server who it is.
func (f *Fence) OnConnect(ctx context.Context, conn *redis.Conn) error {
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

// runID is the id that a Redis process takes at its start. The embedded one
// has none: it has forgotten everything whenever it is another one. A server
// that refuses to tell is an error, for its restart would go unnoticed.
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
