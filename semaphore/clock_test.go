package semaphore_test

import (
	"context"
	"errors"
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
	grant := func() error {
		_, err := s.Grant(soon(t), semaphore.Request{Try: true})
		return err
	}
	server.SetClock(day)
	for range 2 {
		if err := grant(); err != nil {
			t.Fatal(err)
		}
	}
	server.SetClock(0)
	for _, holder := range status(t, s).Holders {
		if left := time.Until(holder.Until); left < lease-10*time.Second || left > lease+time.Second {
			t.Errorf("once the clock is set right a lease of %v ends in %v", lease, left)
		}
	}
	var full *semaphore.CapacityError
	if err := grant(); !errors.As(err, &full) {
		t.Errorf("both permits are held, and then %v", err)
	}
	server.SetClock(lease + time.Second)
	if err := grant(); err != nil {
		t.Errorf("the leases have ended, and then %v", err)
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
