package metrics_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/metrics"
	"github.com/tidegate/tidegate/semaphore"
)

// counted is the semaphores of a test.
type counted struct {
	asked int
	all   []semaphore.Status
	err   error
}

func (c *counted) Counts(context.Context) ([]semaphore.Status, error) {
	c.asked++
	return c.all, c.err
}

// Scrapes one after the other ask once, and while Redis does not answer there are no numbers.
func TestSemaphores(t *testing.T) {
	m := metrics.New("test")
	from := &counted{all: []semaphore.Status{{
		Name: "report", Limit: 5, InUse: 3, Waiting: 2,
		Totals: semaphore.Totals{Granted: 10, Waited: 4, WaitedFor: 1500 * time.Millisecond, TimedOut: 6, Lost: 7, Abandoned: 8},
	}}}
	m.Semaphores(from)
	for range 3 {
		got := scrape(t, m)
		for name, want := range map[string]string{
			"limit": "5", "in_use": "3", "waiting": "2", "granted_total": "10", "waited_total": "4", "waited_seconds_total": "1.5", "timed_out_total": "6",
			"lost_total": "7", "abandoned_total": "8",
		} {
			if n := got["tidegate_semaphore_"+name+`{semaphore="report"}`]; n != want {
				t.Errorf("%s is %q, want %s", name, n, want)
			}
		}
	}
	if from.asked != 1 {
		t.Errorf("asked %d times", from.asked)
	}

	m = metrics.New("test")
	m.Semaphores(&counted{all: from.all, err: errors.New("away")})
	for name := range scrape(t, m) {
		if strings.HasPrefix(name, "tidegate_semaphore") {
			t.Errorf("%s while nobody knows it", name)
		}
	}
}

// quietly is a semaphore of a Redis that has lost its memory.
type quietly struct{}

func (quietly) Counts(context.Context) ([]semaphore.Status, error) {
	return []semaphore.Status{{Name: "report", GrantsResumeIn: time.Second}, {Name: "build"}}, nil
}
