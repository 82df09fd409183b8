package bans

import "time"

// SetClock makes the store's script take its time from now instead of Redis, so that a test need not sleep.
func (s *RedisStore) SetClock(now func() time.Time) {
	s.now = func() int64 { return now().UnixMicro() }
}

// SetMax makes the store remember fewer bans than Max.
func (s *RedisStore) SetMax(n int) { s.most = n }

// SetMax makes the store remember fewer bans than Max.
func (s *MemoryStore) SetMax(n int) { s.most = n }
