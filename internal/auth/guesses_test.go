package auth

import (
	"crypto/sha256"
	"strconv"
	"testing"
	"time"
)

func TestGuesses(t *testing.T) {
	var g guesses
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	right, other := sha256.Sum256([]byte("right")), sha256.Sum256([]byte("other"))
	wrong := func(address string) time.Duration {
		return g.check(address, sha256.Sum256([]byte("wrong")), false, now)
	}

	if wait := g.check("home", right, true, now); wait != 0 {
		t.Errorf("the first token: %v", wait)
	}
	for i := range maxGuesses {
		if wait := wrong("home"); wait != 0 {
			t.Fatalf("guess %d: %v", i, wait)
		}
	}
	if wait := wrong("home"); wait != time.Second {
		t.Errorf("one too many: %v", wait)
	}
	if wait := g.check("home", right, true, now); wait != 0 {
		t.Errorf("the token that was shown before: %v", wait)
	}
	if wait := g.check("home", other, true, now); wait != time.Second {
		t.Errorf("a token that may have been guessed: %v", wait)
	}
	if wait := g.check("elsewhere", other, true, now); wait != 0 {
		t.Errorf("another address: %v", wait)
	}
	now = now.Add(time.Second)
	if wait := wrong("home"); wait != 0 {
		t.Errorf("a second later: %v", wait)
	}
	if wait := wrong("home"); wait != time.Second {
		t.Errorf("and one more: %v", wait)
	}

	for i := range maxGuessers + 10 {
		wrong(strconv.Itoa(i))
		g.check(strconv.Itoa(i), right, true, now)
	}
	if len(g.free) > maxGuessers || len(g.acquainted) > maxAcquainted {
		t.Errorf("%d addresses and %d pairs are remembered", len(g.free), len(g.acquainted))
	}
	now = now.Add(2 * maxGuesses * time.Second)
	wrong("last")
	if len(g.free) != 1 {
		t.Errorf("%d addresses are remembered that have all their guesses", len(g.free))
	}
}
