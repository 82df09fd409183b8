package login

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// maxEntries bounds a MemoryStore: some 200 MB.
const maxEntries = 1_000_000

// sweepEvery is how often a MemoryStore drops what means nothing any more, in µs.
const sweepEvery = 60 * second

// A MemoryStore keeps states in this process: for the embedded server, and for a process whose Redis is away. One that is full says
// ErrUnavailable to whom it would have to remember anew, and lets in nobody whom it cannot count. Make it with NewMemoryStore.
type MemoryStore struct {
	now func() int64 // µs

	mu      sync.Mutex
	entries map[string]*entry // guarded by mu
	most    int               // entries
	swept   int64             // guarded by mu
}

// An entry is a state, or a record.
type entry struct {
	state
	reply   reply   // of an attempt with an id
	ladder  *ladder // whose rules reply names
	result  byte    // of a settlement
	expires int64
}

// NewMemoryStore returns an empty store.
func NewMemoryStore() *MemoryStore {
	start := time.Now()
	return &MemoryStore{
		now:     func() int64 { return start.UnixMicro() + time.Since(start).Microseconds() }, // never back
		entries: map[string]*entry{}, most: maxEntries,
	}
}

func (s *MemoryStore) do(_ context.Context, c *call) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	room := s.room(now)
	if c.record != "" {
		if known := s.entries[c.record]; known != nil && known.expires > now {
			return known.repeat(c), nil
		}
	}
	b := &board{tag: c.name}
	var held [kinds]*entry
	for k, key := range c.keys {
		if key == "" {
			continue
		}
		e := s.entries[key]
		if e == nil || e.expires <= now {
			if e = (&entry{}); !room && kind(k) != byPair && (c.op == opReserve || c.op == opReport) {
				return reply{}, fmt.Errorf("%w: the store has %d entries", ErrUnavailable, len(s.entries))
			}
		}
		held[k], b.of[k] = e, &e.state
	}
	var re reply
	record := &entry{}
	if c.op == opSettle {
		re = c.ladder.settle(b, c, now)
		record.result, record.expires = c.result, now+settledLife
	} else {
		re = c.ladder.attempt(b, c, now)
		record.reply, record.ladder, record.expires = re, c.ladder, now+recordLife
		record.reply.trips, record.reply.known = nil, true
	}
	for k, e := range held {
		switch {
		case e == nil:
		case e.state.empty():
			delete(s.entries, c.keys[k])
		default:
			e.expires = c.ladder.expires(kind(k), &e.state)
			s.entries[c.keys[k]] = e
		}
	}
	if c.record != "" && c.op != opCheck && re.outcome == settled {
		s.entries[c.record] = record
	}
	return re, nil
}

// repeat is what a record says to the question that it answered.
func (e *entry) repeat(c *call) reply {
	if c.op != opSettle {
		re := e.reply
		re.rule, re.shadow = c.ladder.indexOf(e.ladder, re.rule), c.ladder.indexOf(e.ladder, re.shadow)
		return re
	}
	if e.result == c.result {
		return reply{outcome: settled}
	}
	return reply{outcome: settledOther}
}

// room reports whether there is any, and makes some.
func (s *MemoryStore) room(now int64) bool {
	if now >= s.swept+sweepEvery || len(s.entries) >= s.most && now >= s.swept+second {
		s.swept = now
		for key, e := range s.entries {
			if e.expires <= now {
				delete(s.entries, key)
			}
		}
	}
	return len(s.entries) < s.most
}

func (s *MemoryStore) look(_ context.Context, keys [kinds]string) (states [kinds]*state, now int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.now()
	for k, key := range keys {
		if key == "" {
			continue
		}
		states[k] = &state{}
		if e := s.entries[key]; e != nil && e.expires > now {
			states[k].units = append(states[k].units, e.units...)
			states[k].marks = append(states[k].marks, e.marks...)
		}
	}
	return states, now, nil
}

func (s *MemoryStore) forget(_ context.Context, keys [kinds]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range present(keys) {
		delete(s.entries, key)
	}
	return nil
}
