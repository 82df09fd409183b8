package auth

import (
	"strconv"
	"testing"
	"time"
)

func TestGuesses(t *testing.T) {
	var g guesses
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	wrong := func(address string) time.Duration { return g.count(address, now) }
	for i := range maxGuesses {
		if wait := wrong("home"); wait != 0 {
			t.Fatalf("guess %d: %v", i, wait)
		}
	}
	if wait := wrong("home"); wait != time.Second {
		t.Errorf("one too many: %v", wait)
	}
	if wait := wrong("elsewhere"); wait != 0 {
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
	}
	if len(g.free) > maxGuessers {
		t.Errorf("%d addresses are remembered", len(g.free))
	}
	now = now.Add(2 * maxGuesses * time.Second)
	wrong("last")
	if len(g.free) != 1 {
		t.Errorf("%d addresses are remembered that have all their guesses", len(g.free))
	}
}
