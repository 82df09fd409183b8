package semaphore

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/names"
)

// A Client is the part of a go-redis client that a Set needs. Retries of commands are harmless, because all operations are idempotent.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
	SSubscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// SetOptions of a Set.
type SetOptions struct {
	// Namespace is the prefix of all keys, so that installations can share a Redis. Empty means "tidegate".
	Namespace string
	// Holder is the holder's name of acquisitions without one. Empty means the host name and the process ID.
	Holder string
	// Lookup returns definitions that Redis does not have. If it is nil, semaphores that were not defined are unknown.
	Lookup Lookup
}

// A Set holds the semaphores of one installation in one process. They share a subscription and batches of operations. Make it with
// NewSet, and start Run; it is safe for concurrent use. It sends nothing before the first use.
type Set struct {
	rdb     Client
	opts    SetOptions
	process string // unique ID of this Set
	sharded bool   // sharded pub/sub, as on a cluster
	lookups singleflight.Group
	listens sync.Once
	wants   chan struct{}   // capacity 1: wanted is not empty
	ctx     context.Context // of scripts; ends with that of Run
	cancel  context.CancelFunc

	attempts atomic.Int64 // requests with an ID

	mu     sync.Mutex
	shards map[string]weak.Pointer[shard] // guarded by mu: by hash tag; a shard is freed with its last user
	seen   map[string]lease               // guarded by mu: of semaphores seen in Redis
	wanted []subscription                 // guarded by mu: which Run has not taken yet
	closed bool                           // guarded by mu: Run has ended
}

// NewSet returns a Set on rdb, which the caller closes. A Redis Cluster needs Redis 7 or newer for sharded pub/sub, a single server 6.2.
// Set ContextTimeoutEnabled in the client's options, or a lost reply costs its ReadTimeout. Auto-pipelining brings no benefit, because
// concurrent operations are batched anyway.
func NewSet(rdb Client, opts SetOptions) (*Set, error) {
	if opts.Namespace == "" {
		opts.Namespace = "tidegate"
	}
	if !names.Namespace(opts.Namespace) {
		return nil, invalid("namespace is %.80q, should be "+names.Length+" of A-Z a-z 0-9 . _ : -", opts.Namespace)
	}
	if opts.Holder == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		opts.Holder = fmt.Sprintf("%.200s:%d", host, os.Getpid())
	}
	if err := checkText("holder", opts.Holder); err != nil {
		return nil, err
	}
	if c, ok := rdb.(*redis.Client); ok && !c.Options().ContextTimeoutEnabled {
		if t := c.Options().ReadTimeout; t <= 0 || t > scriptTimeout {
			rdb = c.WithTimeout(scriptTimeout) // or one lost reply would delay all others until Redis considers this process dead
		}
	}
	_, sharded := rdb.(*redis.ClusterClient)
	s := &Set{
		rdb: rdb, opts: opts, process: random(), sharded: sharded, shards: map[string]weak.Pointer[shard]{}, seen: map[string]lease{},
		wants: make(chan struct{}, 1),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Semaphore returns the semaphore with this name, see CheckName. It sends nothing; whether the semaphore exists is checked at its use.
func (s *Set) Semaphore(name string) (*Semaphore, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	return &Semaphore{set: s, shard: s.shard(tagOf(name)), name: name}, nil
}

func (s *Set) shard(tag string) *shard {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.shards[tag].Value()
	if sh == nil {
		sh = newShard(s, s.opts.Namespace+":s:{"+tag+":}:")
		sh.ended = s.closed
		s.shards[tag] = weak.Make(sh)
		runtime.AddCleanup(sh, s.tidy, tag)
	}
	return sh
}

// tidy removes a shard that has been freed. Callers choose tags, so shards must not accumulate.
func (s *Set) tidy(tag string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shards[tag].Value() == nil {
		delete(s.shards, tag)
	}
}

// end ends all shards, and waits for their scripts.
func (s *Set) end() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	for _, sh := range s.all() {
		sh.end()
	}
}

// all returns the existing shards.
func (s *Set) all() []*shard {
	s.mu.Lock()
	defer s.mu.Unlock()
	shards := make([]*shard, 0, len(s.shards))
	for _, sh := range s.shards {
		if sh := sh.Value(); sh != nil {
			shards = append(shards, sh)
		}
	}
	return shards
}

// A lease is an upper bound for the remaining time of permits, as seen by this process.
type lease struct {
	length time.Duration
	until  time.Time
}

// remember records that Redis has these semaphores, and their lease, so that a later loss of Redis' data is detected.
func (s *Set) remember(names []string, length time.Duration) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if seen := s.seen[name]; length >= seen.length || now.After(seen.until) {
			s.seen[name] = lease{length, now.Add(length)}
		}
	}
}

// forgotten returns how long a Redis without the semaphore name must grant nothing: 0 if the semaphore never existed.
func (s *Set) forgotten(name string, def *Definition) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, ok := s.seen[name]
	switch {
	case ok && seen.length > def.Lease && time.Now().Before(seen.until):
		return seen.length
	case ok || def.ExistedBefore:
		return def.Lease
	}
	return 0
}

// restore defines a semaphore that Redis does not have, if a Lookup returns its definition.
func (s *Set) restore(ctx context.Context, name string) error {
	_, err, _ := s.lookups.Do(name, func() (any, error) {
		if s.opts.Lookup == nil {
			return nil, failure.New(ErrUnknown, "it is called %q", name)
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout) // other callers share this result
		defer cancel()
		def, err := s.opts.Lookup(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("definition of %q: %w", name, err)
		}
		if err := def.check(); err != nil {
			return nil, fmt.Errorf("definition of %q: %w", name, err)
		}
		return nil, s.shard(tagOf(name)).define(ctx, name, def, true)
	})
	return err
}

const lookupTimeout = 2 * time.Second
