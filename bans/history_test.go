package bans_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/bans"
)

// A diary is a history that can be unavailable.
type diary struct {
	mu     sync.Mutex
	away   bool
	events []bans.Event // guarded by mu
	told   int          // guarded by mu: events received, including repeated ones
}

func (d *diary) Record(_ context.Context, events []bans.Event) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.away {
		return errors.New("away")
	}
	d.told += len(events)
	for _, e := range events {
		if !slices.ContainsFunc(d.events, func(known bans.Event) bool { return known.ID == e.ID }) {
			d.events = append(d.events, e)
		}
	}
	return nil
}

func (d *diary) set(away bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = away
}

// Events from a time when the history was unavailable are recorded later, and each is recorded once.
func TestTheHistoryIsToldOfBans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, book := memory(nil), &diary{away: true}
		g := bans.NewList(store, bans.Options{History: book, Logger: slog.New(slog.DiscardHandler)})
		other := newList(store) // has no history, and must not consume events
		defer running(t, g)()
		defer running(t, other)()
		ban(t, other, "user", "ann", time.Hour)
		ban(t, g, "ip", "192.0.2.1", time.Hour)
		lift(t, other, "user", "ann")
		time.Sleep(time.Minute)
		synctest.Wait()
		if book.told != 0 {
			t.Fatalf("%d events told while the history was away", book.told)
		}
		if !excludes(g, "", "192.0.2.1") {
			t.Error("no news of bans while the history is away")
		}
		book.set(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		var got []string
		for _, e := range book.events {
			word := "banned "
			if e.Lifted {
				word = "lifted "
			}
			got = append(got, word+e.Value)
		}
		if want := []string{"banned ann", "banned 192.0.2.1", "lifted ann"}; !slices.Equal(got, want) || book.told != len(want) {
			t.Errorf("%d told, %q, want %q", book.told, got, want)
		}
		if exchange(t, g); book.told != 3 {
			t.Errorf("told %d times of 3 events", book.told)
		}
	})
}

// More bans than fit into one reply are recorded in one turn.
func TestTheHistoryIsToldOfManyBans(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		book := &diary{}
		g := bans.NewList(open(nil), bans.Options{Namespace: namespace(), Timeout: patience, History: book})
		for i := range 250 {
			ban(t, g, "user", string(rune(0x100+i)), time.Hour)
		}
		if exchange(t, g); len(book.events) != 250 || book.told != 250 {
			t.Errorf("%d events, %d told, want 250", len(book.events), book.told)
		}
	})
}
