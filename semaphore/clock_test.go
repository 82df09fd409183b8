package semaphore_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/semaphore"
)

// Permits and pauses of a Redis whose clock was a day ahead end a lease after it is set right.
func TestAClockOfRedisThatIsSetRight(t *testing.T) {
	t.Parallel()
	const lease, day = 20 * time.Second, 24 * time.Hour
	server := testenv.StartRedisWithClock(t)
	s := newHouse(t, server.URL()).defined("report", 2, lease)
	grant := func() *semaphore.Refusal {
		t.Helper()
		_, full, err := s.Grant(soon(t), semaphore.Request{Try: true})
		if err != nil {
			t.Fatal(err)
		}
		return full
	}
	server.SetClock(day)
	for range 2 {
		if full := grant(); full != nil {
			t.Fatal(full)
		}
	}
	server.SetClock(0)
	for _, holder := range status(t, s).Holders {
		if left := time.Until(holder.Until); left < lease-10*time.Second || left > lease+time.Second {
			t.Errorf("once the clock is set right a lease of %v ends in %v", lease, left)
		}
	}
	if grant() == nil {
		t.Error("both permits are held, and a third is granted")
	}
	server.SetClock(lease + time.Second)
	if full := grant(); full != nil {
		t.Errorf("the leases have ended, and then %+v", full)
	}

	server.SetClock(day)
	server.Restart()
	answered(t, func(ctx context.Context) error { _, err := s.Status(ctx); return err })
	server.SetClock(0)
	if pause := status(t, s).GrantsResumeIn; pause <= 0 || pause > lease {
		t.Errorf("grants resume in %v, want a lease of %v at most", pause, lease)
	}
	server.SetClock(lease + time.Second)
	if err := grant(); err != nil {
		t.Errorf("grants resume, and then %v", err)
	}
}
