package login

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

// maxEntries bounds a MemoryStore to some 200 MB.
const maxEntries = 1_000_000

// sweepEvery is the interval at which a MemoryStore drops expired data, in µs.
const sweepEvery = 60 * second

var errFull = errors.New("the store is full")

// A MemoryStore keeps states in this process: for the embedded server, and while Redis is unavailable. A full store returns
// ErrUnavailable for attempts that would need a new entry, so that no attempt goes uncounted. Make it with NewMemoryStore.
type MemoryStore struct {
	now func() int64 // µs

	mu      sync.Mutex
	entries map[string]*entry  // guarded by mu
	records map[string]*record // guarded by mu
	most    int                // maximum number of entries, and of records
	swept   int64              // guarded by mu
}

// An entry is a state.
type entry struct {
	state
	expires int64
}

// A record is the answer to a call.
type record struct {
	reply   reply    // to an attempt with an id
	rules   *ruleSet // the rules that reply refers to
	result  byte     // result of a settlement
	expires int64
}

// NewMemoryStore returns an empty store.
func NewMemoryStore() *MemoryStore {
	start := time.Now()
	return &MemoryStore{
		now:     func() int64 { return start.UnixMicro() + time.Since(start).Microseconds() }, // monotonic
		entries: map[string]*entry{}, records: map[string]*record{}, most: maxEntries,
	}
}

func (s *MemoryStore) do(_ context.Context, c *call) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	room := s.room(now)
	if c.record != "" {
		if known := s.records[c.record]; known != nil && known.expires > now {
			return known.repeat(c), nil
		}
	}
	a := &attemptState{tag: c.name}
	var held [kinds]*entry
	for k, key := range c.keys {
		if key == "" {
			continue
		}
		e := s.entries[key]
		if e == nil || e.expires <= now {
			if e = (&entry{}); !room && kind(k) != byPair && (c.op == opReserve || c.op == opReport) {
				return reply{}, fmt.Errorf("%w: %w: %d entries", ErrUnavailable, errFull, len(s.entries))
			}
		}
		held[k], a.of[k] = e, &e.state
	}
	var re reply
	kept := &record{}
	if c.op == opSettle {
		re = c.rules.settle(a, c, now)
		kept.result, kept.expires = c.result, now+settledLife
	} else {
		re = c.rules.attempt(a, c, now)
		kept.reply, kept.rules, kept.expires = re, c.rules, now+recordLife
		kept.reply.penalties, kept.reply.known = nil, true
	}
	for k, e := range held {
		switch {
		case e == nil:
		case e.state.empty():
			delete(s.entries, c.keys[k])
		default:
			e.expires = c.rules.expires(kind(k), &e.state)
			s.entries[c.keys[k]] = e
		}
	}
	if c.record != "" && c.op != opCheck && re.outcome == settled && len(s.records) < s.most { // if full, a resend counts as a new attempt
		s.records[c.record] = kept
	}
	return re, nil
}

// repeat returns the recorded answer to a repeated call.
func (r *record) repeat(c *call) reply {
	if c.op != opSettle {
		re := r.reply
		re.rule, re.shadow = c.rules.indexOf(r.rules, re.rule), c.rules.indexOf(r.rules, re.shadow)
		return re
	}
	if r.result == c.result {
		return reply{outcome: settled}
	}
	return reply{outcome: settledOther}
}

// room reports whether there is room for a new entry, after dropping expired ones.
func (s *MemoryStore) room(now int64) bool {
	if now >= s.swept+sweepEvery || max(len(s.entries), len(s.records)) >= s.most && now >= s.swept+second {
		s.swept = now
		maps.DeleteFunc(s.entries, func(_ string, e *entry) bool { return e.expires <= now })
		maps.DeleteFunc(s.records, func(_ string, r *record) bool { return r.expires <= now })
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
			states[k].data = append(states[k].data, e.data...)
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
