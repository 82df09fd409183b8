package semaphore

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/pubsub"
)

const listenPause = 100 * time.Millisecond // after a connection failed

// A subscription is a channel with messages for shards.
type subscription struct {
	channel string
	shards  func() []*shard
}

// listen makes Run subscribe to the process' channel, once Redis has the first waiter or permit of the process. The caller holds mu.
// Messages may be late or lost: the heartbeat makes up for them.
func (sh *shard) listen() {
	if sh.listens {
		return
	}
	sh.listens = true
	s := sh.set
	if s.sharded {
		s.subscribe(subscription{sh.channel(), func() []*shard { return []*shard{sh} }})
		return
	}
	s.listens.Do(func() { s.subscribe(subscription{sh.channel(), s.all}) }) // one channel for all shards
}

func (s *Set) subscribe(sub subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = append(s.wanted, sub)
	select {
	case s.wants <- struct{}{}:
	default:
	}
}

// Run receives what other processes do to the waiters and permits of this one, until ctx ends; it then returns nil. Without Run waiters
// notice it up to half a second later, and permits at their next renewal. Call it once, with a ctx that outlives the last Release: not with
// the one that stops the work.
//
// When ctx ends, all waiting calls return ErrClosed, as later ones do, and the contexts of all permits are cancelled with it as the
// cause. Permits are not given back: they expire with their leases, because their work may go on, so release them first.
func (s *Set) Run(ctx context.Context) error {
	var receiving sync.WaitGroup
	defer receiving.Wait()
	defer s.end()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wants:
		}
		s.mu.Lock()
		wanted := s.wanted
		s.wanted = nil
		s.mu.Unlock()
		for _, sub := range wanted {
			receiving.Go(func() { s.receive(ctx, sub) })
		}
	}
}

// receive receives the messages of a channel until ctx ends.
func (s *Set) receive(ctx context.Context, sub subscription) {
	subscribe := s.rdb.Subscribe
	if s.sharded {
		subscribe = s.rdb.SSubscribe
	}
	_ = pubsub.Follow(ctx, listenPause, func() error {
		return pubsub.Listen(ctx, subscribe, []string{sub.channel}, func(message string) {
			if message != "" {
				s.handle(message)
				return
			}
			for _, sh := range sub.shards() {
				sh.catchUp()
			}
		})
	}, func(error) {}) // calls report that Redis is unavailable
}

// catchUp makes up for messages sent before the subscription.
func (sh *shard) catchUp() {
	sh.beatSoon()
	sh.mu.Lock()
	var permits []*Permit
	for _, p := range sh.permits {
		permits = append(permits, p...)
	}
	sh.mu.Unlock()
	for _, p := range permits {
		p.renewSoon()
	}
}

// handle handles a message to this process, see keys.go. Its last part is the semaphore's name.
func (s *Set) handle(payload string) {
	parts := strings.Split(payload, " ")
	name := parts[len(parts)-1]
	s.mu.Lock()
	sh := s.shards[tagOf(name)].Value()
	s.mu.Unlock()
	switch {
	case sh == nil:
	case parts[0] == messageLook && len(parts) == 2:
		sh.beatSoon()
	case parts[0] == messageCome && len(parts) == 3:
		sh.askNow(parts[1], name)
	case parts[0] == messageLost && len(parts) == 4:
		token, _ := strconv.ParseInt(parts[2], 10, 64)
		sh.lost(parts[1], token)
	}
}

// lost ends the permits that another caller has released.
func (sh *shard) lost(key string, token int64) {
	sh.mu.Lock()
	var lost []*Permit
	for _, p := range sh.permits[key] {
		if p.ticket.token == token {
			lost = append(lost, p)
		}
	}
	sh.mu.Unlock()
	for _, p := range lost {
		p.lose(ErrPermitLost)
	}
}
