package redisstore

import "time"

// SetSkew makes the store believe that Redis' clock is ahead of this machine's by d.
func (s *Store) SetSkew(d time.Duration) { s.skew.Store(int64(d)) }

// Skew is by how much it believes so.
func (s *Store) Skew() time.Duration { return time.Duration(s.skew.Load()) }
