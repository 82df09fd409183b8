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
func (l *lane) listen() {
	if l.listens {
		return
	}
	l.listens = true
	s := l.set
	if s.sharded {
		s.start(func() {
			if sub := l.keep(s.rdb.SSubscribe(s.ctx, l.channel())); sub != nil {
				s.hear(sub, func() []*lane { return []*lane{l} })
			}
		})
		return
	}
	s.listens.Do(func() { // one channel for all lanes
		s.start(func() {
			if sub := s.keep(s.rdb.Subscribe(s.ctx, l.channel())); sub != nil {
				s.hear(sub, s.all)
			}
		})
	})
}

// hear reads sub until it is closed.
func (s *Set) hear(sub *redis.PubSub, lanes func() []*lane) {
	for message := range sub.ChannelWithSubscriptions(redis.WithChannelHealthCheckInterval(listenQuiet), redis.WithChannelSize(listenRoom)) {
		switch m := message.(type) {
		case *redis.Subscription:
			for _, l := range lanes() {
				l.catchUp()
			}
		case *redis.Message:
			s.heard(m.Payload)
		}
	}
}

// catchUp makes up for messages sent before the subscription.
func (l *lane) catchUp() {
	l.beatSoon()
	l.mu.Lock()
	var permits []*Permit
	for _, p := range l.permits {
		permits = append(permits, p...)
	}
	l.mu.Unlock()
	for _, p := range permits {
		p.renewSoon()
	}
}

// heard handles a message to this process, see keys.go. Its last part is the semaphore's name.
func (s *Set) heard(payload string) {
	parts := strings.Split(payload, " ")
	name := parts[len(parts)-1]
	s.mu.Lock()
	l := s.lanes[tagOf(name)].Value()
	s.mu.Unlock()
	switch {
	case l == nil:
	case parts[0] == sayLook && len(parts) == 2:
		l.beatSoon()
	case parts[0] == sayCome && len(parts) == 3:
		l.come(parts[1], name)
	case parts[0] == sayLost && len(parts) == 4:
		token, _ := strconv.ParseInt(parts[2], 10, 64)
		l.lost(parts[1], token)
	}
}

// lost ends the permits that another caller has released.
func (l *lane) lost(key string, token int64) {
	l.mu.Lock()
	var lost []*Permit
	for _, p := range l.permits[key] {
		if p.ticket.token == token {
			lost = append(lost, p)
		}
	}
	l.mu.Unlock()
	for _, p := range lost {
		p.lose(ErrPermitLost)
	}
}
