package semaphore

import (
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	listenQuiet = 3 * time.Second // after which a subscription is asked whether it lives
	listenRoom  = 16384           // messages that have come and were not looked at yet
)

// listen sees to it that the process hears what concerns its waiters and permits, from the first one that Redis knows of. It is called with mu held. Messages
// may come late or never: the heartbeat finds out by itself.
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

// catchUp finds out what was said before the process listened.
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

// heard hears a word to this process, see keys.go. The last part is the semaphore's name.
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

// lost ends the permits that somebody has released in their stead.
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
