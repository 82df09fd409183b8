package asynqueue

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
)

// TestAnIdlePollerWaitsUntilItIsWoken, or until it is stopped.
func TestAnIdlePollerWaitsUntilItIsWoken(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: testenv.StartRedis(t).Addr()})
	defer rdb.Close()
	woken, done := make(chan struct{}), make(chan struct{})
	p := newPoller(rdb, "q", woken, done)
	p.idle = time.Hour
	keys := []string{"asynq:{q}:pending", "asynq:{q}:paused", "asynq:{q}:active", "asynq:{q}:lease"}
	look := func() <-chan struct{} {
		looked := make(chan struct{})
		go func() { p.EvalSha(t.Context(), "unknown", keys); close(looked) }()
		return looked
	}
	<-look() // there may be work
	p.latest.Store(0)
	looked := look()
	woken <- struct{}{} // received by the waiting poller
	<-looked
	<-look() // there may be more
	p.latest.Store(0)
	looked = look()
	close(done)
	<-looked
}
