package semaphore_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/semaphore"
)

func TestUnknownNames(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		s := h.semaphore("nowhere")
		if _, _, err := s.Acquire(soon(t)); !errors.Is(err, semaphore.ErrUnknown) {
			t.Errorf("Acquire: %v", err)
		}
		if _, _, err := s.TryAcquire(soon(t)); !errors.Is(err, semaphore.ErrUnknown) {
			t.Errorf("TryAcquire: %v", err)
		}
		if _, err := s.Status(soon(t)); !errors.Is(err, semaphore.ErrUnknown) {
			t.Errorf("Status: %v", err)
		}
		looked := 0
		set := h.setOn(h.client(), semaphore.SetOptions{Lookup: func(_ context.Context, name string) (semaphore.Definition, error) {
			looked++
			if name != "report" {
				return semaphore.Definition{}, semaphore.ErrUnknown
			}
			return semaphore.Definition{Limit: 1}, nil
		}})
		if _, _, err := of(t, set, "nowhere").Acquire(soon(t)); !errors.Is(err, semaphore.ErrUnknown) {
			t.Errorf("what the lookup does not know: %v", err)
		}
		p := acquire(t, of(t, set, "report"), semaphore.Request{})
		if st := status(t, h.semaphore("report")); st.Limit != 1 || st.Lease != semaphore.DefaultLease || looked != 2 {
			t.Errorf("%+v after %d look-ups", st, looked)
		}
		release(t, p)
	})
}

// Undefined names, which callers may invent, leave no subscription behind.
func TestUnknownTagsLeaveNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, strings.Join(testenv.RedisCluster(t), ","))
	set, rdb := h.set(), h.client()
	subscribed := func() (channels []string) {
		t.Helper()
		var mu sync.Mutex
		if err := rdb.(*redis.ClusterClient).ForEachMaster(soon(t), func(ctx context.Context, node *redis.Client) error {
			found, err := node.PubSubShardChannels(ctx, h.namespace+"*").Result()
			mu.Lock()
			defer mu.Unlock()
			channels = append(channels, found...)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return channels
	}
	for i := range 100 {
		if _, _, err := of(t, set, strconv.Itoa(i)+":report").Acquire(soon(t)); !errors.Is(err, semaphore.ErrUnknown) {
			t.Fatal(err)
		}
	}
	if channels := subscribed(); len(channels) > 0 {
		t.Errorf("%d channels are listened to", len(channels))
	}
	s := of(t, set, "7:report")
	define(t, s, 1, long)
	p := acquire(t, s, semaphore.Request{})
	waiter := queue(t, s, semaphore.Request{}, 1)
	for ctx := soon(t); len(subscribed()) != 1; {
		if ctx.Err() != nil {
			t.Fatalf("who waits listens to %v", subscribed())
		}
	}
	release(t, p)
	release(t, waiter.got())
}
