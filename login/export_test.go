package login

// SetNow gives the store another clock, in µs.
func (s *RedisStore) SetNow(now func() int64) { s.now = now }

// SetNow gives the store another clock, in µs.
func (s *MemoryStore) SetNow(now func() int64) { s.now = now }
