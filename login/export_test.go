package login

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission/rules"
)

// SetNow gives the store another clock, in µs.
func (s *RedisStore) SetNow(now func() int64) { s.now = now }

// SetNow gives the store another clock, in µs.
func (s *MemoryStore) SetNow(now func() int64) { s.now = now }

// SetRoom makes the store full at so many entries.
func (s *MemoryStore) SetRoom(entries int) { s.most = entries }

// Records is how many answers the store keeps.
func (s *MemoryStore) Records() int { return len(s.records) }

// Units is how many attempts the state of a name holds.
func (t *Throttle) Units(ctx context.Context, name string) int {
	keys, _, _ := t.subjectKeys(Subject{Name: name})
	states, _, err := t.store.look(ctx, keys)
	if err != nil {
		return -1
	}
	return len(states[byName].units)
}

// ForgetAnswers drops the answers to attempts with an id from Redis.
func (t *Throttle) ForgetAnswers(ctx context.Context) error {
	s, ok := t.store.(*RedisStore)
	if !ok {
		return nil
	}
	rdb := s.rdb.(redis.UniversalClient)
	keys, err := rdb.Keys(ctx, t.keys.prefix+"q:*").Result()
	if err != nil || len(keys) == 0 {
		return err
	}
	return rdb.Del(ctx, keys...).Err()
}

// EndRest makes the throttle ask its store again at once.
func (t *Throttle) EndRest() { t.resting.Store(0) }

// SetLocalNow sets the clock of the throttle's local counts, in µs.
func (t *Throttle) SetLocalNow(now func() int64) { t.local.SetNow(now) }

// builtIn returns the steps of the built-in rules.
func builtIn() []Step {
	steps, err := Steps(rules.Default())
	if err != nil {
		panic(err)
	}
	return steps
}
