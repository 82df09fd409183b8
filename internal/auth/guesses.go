package auth

import (
	"sync"
	"time"
)

const (
	maxGuesses     = 60          // wrong tokens that an address may send at once
	guessEvery     = time.Second // then one more per interval
	maxGuessers    = 10_000      // addresses that are remembered
	guessesForgone = maxGuesses * guessEvery
)

// guesses throttles addresses that send wrong tokens. The zero value is ready; safe for concurrent use.
type guesses struct {
	mu   sync.Mutex
	free map[string]time.Time // guarded by mu; by address, when it has all its guesses again
}

// count counts a wrong token that an address has sent, and returns how long the address has to wait for the next, or 0.
func (g *guesses) count(address string, now time.Time) time.Duration {
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
