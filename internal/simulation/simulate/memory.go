package main

import (
	"sync"

	"github.com/tetratelabs/wazero/experimental"
)

// maxMemory is what a world may need at most, in bytes.
const maxMemory = 1 << 30

// memories are the memories of worlds, which take turns: fresh ones would cost more than many a world does.
type memories struct {
	mu   sync.Mutex
	free []*linearMemory // guarded by mu
}

type linearMemory struct {
	of   *memories
	all  []byte // maxMemory, of which the system provides what was used
	used int
}

// Allocate implements experimental.MemoryAllocator.
func (m *memories) Allocate(_, _ uint64) experimental.LinearMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.free); n > 0 {
		last := m.free[n-1]
		m.free = m.free[:n-1]
		return last
	}
	return &linearMemory{of: m, all: make([]byte, maxMemory)}
}

// Reallocate implements experimental.LinearMemory.
func (l *linearMemory) Reallocate(size uint64) []byte {
	l.used = max(l.used, int(size))
	return l.all[:size]
}

// Free implements experimental.LinearMemory.
func (l *linearMemory) Free() {
	clear(l.all[:l.used])
	l.used = 0
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.of.free = append(l.of.free, l)
}
