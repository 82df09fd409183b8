package semaphore

import (
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	listenQuiet = 3 * time.Second // silence after which a subscription is pinged
	listenRoom  = 16384           // buffered messages
)

// listen subscribes to the process' channel, once Redis has the first waiter or permit of the process. The caller holds mu. Messages may
// be late or lost: the heartbeat makes up for them.
func (sh *shard) listen() {
	if sh.listens {
		return
	}
	sh.listens = true
	s := sh.set
	if s.sharded {
		s.start(func() {
			if sub := sh.keep(s.rdb.SSubscribe(s.ctx, sh.channel())); sub != nil {
				s.receive(sub, func() []*shard { return []*shard{sh} })
			}
		})
		return
	}
	s.listens.Do(func() { // one channel for all shards
		s.start(func() {
			if sub := s.keep(s.rdb.Subscribe(s.ctx, sh.channel())); sub != nil {
				s.receive(sub, s.all)
			}
		})
	})
}

// receive reads sub until it is closed.
func (s *Set) receive(sub *redis.PubSub, shards func() []*shard) {
	for message := range sub.ChannelWithSubscriptions(redis.WithChannelHealthCheckInterval(listenQuiet), redis.WithChannelSize(listenRoom)) {
		switch m := message.(type) {
		case *redis.Subscription:
			for _, sh := range shards() {
				sh.catchUp()
			}
		case *redis.Message:
			s.handle(m.Payload)
		}
	}
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
	case parts[0] == sayLook && len(parts) == 2:
		sh.beatSoon()
	case parts[0] == sayCome && len(parts) == 3:
		sh.askNow(parts[1], name)
	case parts[0] == sayLost && len(parts) == 4:
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
