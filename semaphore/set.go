package semaphore

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"
)

// A Client is what a Set needs of a go-redis client. Retries of commands do no harm: everything can be sent twice.
type Client interface {
	redis.Scripter
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
	SSubscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// SetOptions of a Set.
type SetOptions struct {
	// Namespace is what all keys begin with, so that installations can share a Redis. Empty means "tidegate".
	Namespace string
	// Holder is who holds what is acquired without a name. Empty means the host's name and the process' number.
	Holder string
	// Lookup finds what Redis does not know. Without one a semaphore that was not defined is unknown.
	Lookup Lookup
}

// A Set is the semaphores of one installation as one process sees them. They share a subscription and what they send. Make it with
// NewSet; it is safe for concurrent use. Nothing runs and nothing is sent before the first use; then Close ends what runs.
type Set struct {
	rdb     Client
	opts    SetOptions
	process string // names this Set among all
	sharded bool   // pub/sub by slot, as a cluster has it
	lookups singleflight.Group
	running sync.WaitGroup
	listens sync.Once
	ctx     context.Context // ends with Close
	close   context.CancelFunc

	mu     sync.Mutex
	lanes  map[string]weak.Pointer[lane] // guarded by mu: by hash tag; a lane goes with the last that uses it
	seen   map[string]lease              // guarded by mu: of semaphores that Redis has had
	sub    *redis.PubSub                 // guarded by mu: nil before somebody waits, and on a cluster, where each lane has one
	closed bool                          // guarded by mu
}

var namespaces = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

// NewSet returns the semaphores on rdb, which stays the caller's. On a Redis Cluster it needs Redis 7 or newer for sharded pub/sub, and else
// 6.2; set ContextTimeoutEnabled in its options, or a lost reply costs its ReadTimeout. An auto-pipelined client gains nothing: what is
// asked at the same time travels together anyway.
func NewSet(rdb Client, opts SetOptions) (*Set, error) {
	if opts.Namespace == "" {
		opts.Namespace = "tidegate"
	}
	if !namespaces.MatchString(opts.Namespace) {
		return nil, invalid("namespace is %.80q, should be 1 to 64 of A-Z a-z 0-9 . _ : -", opts.Namespace)
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
		if t := c.Options().ReadTimeout; t <= 0 || t > patience {
			rdb = c.WithTimeout(patience) // or one lost reply would keep all others waiting until this process is believed dead
		}
	}
	_, sharded := rdb.(*redis.ClusterClient)
	s := &Set{rdb: rdb, opts: opts, process: random(), sharded: sharded, lanes: map[string]weak.Pointer[lane]{}, seen: map[string]lease{}}
	s.ctx, s.close = context.WithCancel(context.Background())
	return s, nil
}

// Semaphore returns the semaphore of this name, see CheckName. It sends nothing: whether there is one is known when it is used.
func (s *Set) Semaphore(name string) (*Semaphore, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	return &Semaphore{set: s, lane: s.lane(tagOf(name)), name: name}, nil
}

func (s *Set) lane(tag string) *lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[tag].Value()
	if l == nil {
		l = newLane(s, s.opts.Namespace+":s:{"+tag+":}:")
		l.ended = s.closed
		s.lanes[tag] = weak.Make(l)
		runtime.AddCleanup(l, s.tidy, tag)
	}
	return l
}

// tidy forgets a lane that has gone. Callers make up tags, so they must not be kept for ever.
func (s *Set) tidy(tag string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lanes[tag].Value() == nil {
		delete(s.lanes, tag)
	}
}

// Close ends all waiting with ErrClosed and the contexts of all permits with it as the cause. Permits are not given back: who still works on
// one keeps it until its lease ends, so release them before. Close waits for what it has started.
func (s *Set) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	sub := s.sub
	s.mu.Unlock()
	s.close()
	for _, l := range s.all() {
		l.end()
	}
	if sub != nil {
		_ = sub.Close() // who reads it ends
	}
	s.running.Wait()
	return nil
}

// all returns the lanes there are.
func (s *Set) all() []*lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	lanes := make([]*lane, 0, len(s.lanes))
	for _, l := range s.lanes {
		if l := l.Value(); l != nil {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

// keep returns sub, which Close will close, or nil if it has been called already.
func (s *Set) keep(sub *redis.PubSub) *redis.PubSub {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = sub.Close()
		return nil
	}
	s.sub = sub
	return sub
}

// start runs do in the background, unless the Set is closed.
func (s *Set) start(do func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		do()
	}()
	return true
}

// A lease is the longest that a permit may still have, as far as this process knows.
type lease struct {
	length time.Duration
	until  time.Time
}

// remember keeps in mind that Redis has these, and for how long a permit of them lives, so that it is noticed when it has them no more.
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

// forgotten returns for how long nothing may be granted by a Redis that does not know name: 0 where it never did.
func (s *Set) forgotten(name string, def *Definition) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, ok := s.seen[name]
	switch {
	case ok && seen.length > def.Lease && time.Now().Before(seen.until):
		return seen.length
	case ok || def.Existed:
		return def.Lease
	}
	return 0
}

// restore defines a semaphore that Redis does not know, where there is a definition.
func (s *Set) restore(ctx context.Context, name string) error {
	_, err, _ := s.lookups.Do(name, func() (any, error) {
		if s.opts.Lookup == nil {
			return nil, fmt.Errorf("%w %q", ErrUnknown, name)
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupPatience) // others wait for it too
		defer cancel()
		def, err := s.opts.Lookup(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("definition of %q: %w", name, err)
		}
		if err := def.check(); err != nil {
			return nil, fmt.Errorf("definition of %q: %w", name, err)
		}
		return nil, s.lane(tagOf(name)).define(ctx, name, def, true)
	})
	return err
}

const lookupPatience = 2 * time.Second
