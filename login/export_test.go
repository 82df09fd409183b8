package login

// SetNow gives the store another clock, in µs.
func (s *RedisStore) SetNow(now func() int64) { s.now = now }

// SetNow gives the store another clock, in µs.
func (s *MemoryStore) SetNow(now func() int64) { s.now = now }

// SetRoom makes the store full at so many entries.
func (s *MemoryStore) SetRoom(entries int) { s.most = entries }
