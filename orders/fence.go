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
// connection. Use NewFence.
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

// runID is the id that a Redis process takes at its start. A server that
// cannot tell, as the embedded one, has forgotten everything whenever it is another one.
func runID(ctx context.Context, rdb interface {
	Info(context.Context, ...string) *redis.StringCmd
},
) (string, error) {
	info, err := rdb.Info(ctx, "server").Result()
	var refused redis.Error
	if errors.As(err, &refused) {
		return "unknown", nil
	} else if err != nil {
		return "", err
	}
	for line := range strings.Lines(info) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return "unknown", nil
}

// runOf is the run id of the server that holds a key.
func (s *Service) runOf(ctx context.Context, key string) (string, error) {
	if cluster, ok := s.base.(*redis.ClusterClient); ok {
		master, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			return "", err
		}
		return runID(ctx, master)
	}
	return runID(ctx, s.base)
}
