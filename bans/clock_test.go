package bans_test

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/testenv"
)

func TestAClockThatIsSetRight(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		clk := newClock()
		clockSetRight(t, open(clk), clk.At)
	})
}

// Redis' own clock, by which its keys expire too.
func TestAClockOfRedisThatIsSetRight(t *testing.T) {
	server := testenv.StartRedisWithClock(t)
	clockSetRight(t, overRedis(dial(t, server.URL()))(nil), server.SetClock)
}

// clockSetRight tests a store whose clock is a day ahead and then set right. set sets how far the clock is ahead.
func clockSetRight(t *testing.T, store bans.Store, set func(time.Duration)) {
	const day = 24 * time.Hour
	b := openBook(t, store)
	order := func(name string) bans.Order {
		return bans.Order{Target: bans.Target{Kind: bans.User, Value: name}, Rule: "r", For: time.Minute}
	}
	set(day)
	b.put(order("banned"))
	b.put(order("lifted"))
	known := b.exchange(bans.News{Process: "p", Lift: []bans.Target{order("lifted").Target}}).Cursor
	set(0)
	for name, since := range map[string]int64{"all": 0, "the changes": known} {
		state := b.exchange(bans.News{Since: since})
		ban := last(state, order("banned").Target)
		if left := ban.Until.Sub(state.At); left < 59*time.Second || left > time.Minute {
			t.Errorf("%s: %+v, %v left", name, ban, left)
		}
	}
	if ban := b.put(order("banned")); ban.Times != 1 {
		t.Errorf("banned again in the minute of the ban: %+v", ban)
	}
	state := b.exchange(bans.News{Put: []bans.Order{order("lifted")}})
	if ban := last(state, order("lifted").Target); ban.Lifted() || ban.Until.Sub(state.At) != time.Minute {
		t.Errorf("banned again after it was lifted: %+v at %v", ban, state.At)
	}
	set(61 * time.Second)
	if ban := b.put(order("banned")); ban.Times != 2 {
		t.Errorf("banned again after the minute of the ban: %+v", ban)
	}
	// A process restores a ban that it still holds after Redis has lost it.
	state = b.exchange(bans.News{Restore: []bans.Ban{{
		Target: bans.Target{Kind: bans.User, Value: "restored"}, Since: state.At.Add(day), Until: state.At.Add(90 * time.Second), Times: 1,
	}}, Ask: []bans.Target{{Kind: bans.User, Value: "restored"}}})
	if ban := last(state, bans.Target{Kind: bans.User, Value: "restored"}); ban.Since.After(state.At) || !ban.Until.After(state.At) {
		t.Errorf("restored: %+v at %v", ban, state.At)
	}
}
