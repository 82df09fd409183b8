package orders

import (
	"testing"
	"time"
)

func TestStateFollowsTheSwitchAndTheClock(t *testing.T) {
	start := time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC)
	end := start.Add(time.Hour)
	for _, c := range []struct {
		at     Switch
		offset time.Duration
		want   State
	}{
		{SwitchDraft, -time.Second, StateScheduled},
		{SwitchDraft, time.Second, StateScheduled},
		{SwitchDraft, time.Hour, StateEnded},
		{SwitchOpen, -time.Millisecond, StateScheduled},
		{SwitchOpen, 0, StateOpen},
		{SwitchOpen, time.Hour - time.Millisecond, StateOpen},
		{SwitchOpen, time.Hour, StateEnded},
		{SwitchPaused, -time.Second, StatePaused},
		{SwitchPaused, time.Second, StatePaused},
		{SwitchPaused, 2 * time.Hour, StateEnded},
		{SwitchClosed, -time.Hour, StateClosed},
		{SwitchClosed, 2 * time.Hour, StateClosed},
	} {
		sale := Sale{Switch: c.at, StartsAt: start, EndsAt: end}
		if got := sale.StateAt(start.Add(c.offset)); got != c.want {
			t.Errorf("%s at %v: %s, want %s", c.at, c.offset, got, c.want)
		}
	}
}
