package auth

import (
	"crypto/sha256"
	"sync"
	"time"
)

const (
	maxGuesses     = 60          // wrong tokens that an address may send at once
	guessEvery     = time.Second // then one more per interval
	maxGuessers    = 10_000      // addresses that are remembered
	maxAcquainted  = 10_000      // pairs of an address and a valid token that it has sent
	guessesForgone = maxGuesses * guessEvery
)

// guesses throttles addresses that send wrong tokens. A valid token that an address has sent before is exempt: a service with
// an outdated token must not lock out others behind the same address. The zero value is ready; safe for concurrent use.
type guesses struct {
	mu         sync.RWMutex
	free       map[string]time.Time  // guarded by mu; by address, when it has all its guesses again
	acquainted map[acquaintance]bool // guarded by mu
}

type acquaintance struct {
	address string
	token   [sha256.Size]byte
}

// check counts a token that an address has sent, and returns how long the address has to wait, or 0 if the token may be used.
func (g *guesses) check(address string, token [sha256.Size]byte, right bool, now time.Time) time.Duration {
	pair := acquaintance{address, token}
	if right {
		g.mu.RLock()
		known := g.acquainted[pair]
		g.mu.RUnlock()
		if known {
			return 0
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	free := g.free[address]
	if free.Before(now) {
		free = now
	}
	next := free.Add(guessEvery)
	if wait := next.Sub(now) - guessesForgone; wait > 0 {
		return wait
	}
	if right {
		if g.acquainted == nil || len(g.acquainted) == maxAcquainted {
			g.acquainted = map[acquaintance]bool{}
		}
		g.acquainted[pair] = true
		return 0
	}
	g.makeRoom(address, now)
	g.free[address] = next
	return 0
}

// makeRoom removes addresses that have all their guesses again, and then, if necessary, any others.
func (g *guesses) makeRoom(address string, now time.Time) {
	if g.free == nil {
		g.free = map[string]time.Time{}
	}
	if _, known := g.free[address]; known || len(g.free) < maxGuessers {
		return
	}
	for other, free := range g.free {
		if free.Before(now) {
			delete(g.free, other)
		}
	}
	for other := range g.free {
		if len(g.free) < maxGuessers {
			break
		}
		delete(g.free, other)
	}
}
